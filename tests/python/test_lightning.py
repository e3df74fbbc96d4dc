"""Lightning's Trainer within a budget: bits of the plain run, figures in the logs."""

import importlib
import sys
import warnings

import lowtide
import pytest
import torch
from lowtide.pytorch.budget.memory import outside_room
from on_device import seeded


def test_what_to_install_is_said(monkeypatch):
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "lowtide.pytorch.integrations.lightning", raising=False)
    with pytest.raises(lowtide.InputError, match="pip install lightning"):
        importlib.import_module("lowtide.pytorch.integrations.lightning")


@pytest.fixture(scope="module")
def integration(one_thread):
    pytest.importorskip("lightning.pytorch")
    return importlib.import_module("lowtide.pytorch.integrations.lightning")


def classifier(validated=False):
    """A LightningModule whose steps call `self.net`, and never itself."""
    from lightning.pytorch import LightningModule

    class Classifier(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Dropout(0.2),
                torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.GELU(),
                torch.nn.Linear(64, 4))

        def training_step(self, batch, index):
            x, target = batch
            return torch.nn.functional.cross_entropy(self.net(x), target)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    class Validated(Classifier):
        is_validated = True

        def validation_step(self, batch, index):
            self.log("validation", self.training_step(batch, index))

    torch.manual_seed(0)
    return (Validated if validated else Classifier)()


def fit(model, folder, callbacks=()):
    """What the module holds after an epoch of four batches, and what was logged."""
    from lightning.pytorch import Trainer

    generator = seeded(1)
    data = torch.utils.data.TensorDataset(torch.randn(256, 16, generator=generator),
                                          torch.randint(0, 4, (256,), generator=generator))
    trainer = Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
                      enable_progress_bar=False, enable_model_summary=False,
                      default_root_dir=folder, callbacks=list(callbacks))
    torch.manual_seed(2)
    loader = torch.utils.data.DataLoader(data, batch_size=64)
    trainer.fit(model, loader, loader if hasattr(model, "is_validated") else None)
    return model.state_dict(), trainer.callback_metrics


@pytest.mark.parametrize("validated", [False, True])
def test_the_trainer_trains_to_the_same_bits(integration, validated, tmp_path):
    plain, _ = fit(classifier(validated), tmp_path)
    model = classifier(validated)
    state, logged = fit(model, tmp_path, [integration.MemoryBudget("90%", module="net")])
    assert all(torch.equal(state[name], plain[name]) for name in plain)
    loss = outside_room(1)  # worked out outside of the planned module
    assert 0 < logged["lowtide_peak_bytes"] <= logged["lowtide_planned_bytes"] + loss
    assert logged["lowtide_predicted_seconds"] > 0  # all that lowtide.metrics has
    assert "forward" not in model.net.__dict__


@pytest.mark.cpu_only("budgets that count buffers for copies, as on the CPU")
def test_the_state_of_the_optimizer_moves(integration, tmp_path):
    plain, _ = fit(classifier(), tmp_path)
    found = []

    class Noting(integration.MemoryBudget):
        def on_train_batch_end(self, trainer, pl_module, *given):
            super().on_train_batch_end(trainer, pl_module, *given)
            found.append(self._in_place.memory.state_moved.bytes_out)

    offload = lowtide.Offload(tmp_path, bandwidth="1GB/s", optimizer_state=True)
    state, _ = fit(classifier(), tmp_path, [Noting("16MiB", module="net", offload=offload)])
    assert all(torch.equal(state[name], plain[name]) for name in plain)
    assert len(found) == 4 and min(found) > 0  # the first step too, which plans in its closure


def seen_norm(model):
    return sum(parameter.grad.norm().item() for parameter in model.parameters()
               if parameter.grad is not None)


def derived(name, **members):
    """A classifier whose class has these members too."""
    model = classifier()
    model.__class__ = type(name, (type(model),), members)
    model.seen = []
    return model


def clears_every_second():
    def optimizer_zero_grad(self, epoch, index, optimizer):
        if index % 2 == 0:
            optimizer.zero_grad()

    return derived("ClearsEverySecond", optimizer_zero_grad=optimizer_zero_grad)


def looks_before_clearing():
    def on_before_zero_grad(self, optimizer):
        self.seen.append(seen_norm(self))

    return derived("LooksBeforeClearing", on_before_zero_grad=on_before_zero_grad)


def looks_at_batch_start():
    def on_train_batch_start(self, batch, index):
        self.seen.append(seen_norm(self))

    return derived("LooksAtBatchStart", on_train_batch_start=on_train_batch_start)


def looks_at_step_start():
    def training_step(self, batch, index):
        self.seen.append(seen_norm(self))
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    return derived("LooksAtStepStart", training_step=training_step)


def looks_after_the_call():
    def look(self):
        self.seen.append(seen_norm(self))

    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.look()
        return loss

    return derived("LooksAfterTheCall", training_step=training_step, look=look)


@pytest.mark.parametrize("make", [
    clears_every_second, looks_before_clearing, looks_at_batch_start, looks_at_step_start,
    looks_after_the_call])
def test_users_see_the_gradients_of_the_plain_run(integration, make, tmp_path):
    plain, model = make(), make()
    expected, _ = fit(plain, tmp_path)
    state, _ = fit(model, tmp_path, [integration.MemoryBudget("100%", module="net",
                                                              time_limit=0.3)])
    assert all(torch.equal(state[name], expected[name]) for name in expected)
    assert model.seen == plain.seen


def test_a_callback_sees_the_gradients_of_the_plain_run(integration, tmp_path):
    from lightning.pytorch import Callback

    class Looks(Callback):
        def __init__(self):
            self.seen = []

        def on_before_zero_grad(self, trainer, pl_module, optimizer):
            self.seen.append(seen_norm(pl_module))

    plain, within = Looks(), Looks()
    fit(classifier(), tmp_path, [plain])
    budget = integration.MemoryBudget("100%", module="net", time_limit=0.3)
    fit(classifier(), tmp_path, [budget, within])
    assert within.seen == plain.seen and any(plain.seen)


def test_gradients_that_nobody_sees_take_no_memory_in_the_forward_pass(integration, tmp_path):
    model, held = classifier(), []
    model.net[0].register_forward_pre_hook(lambda module, arguments: held.append(seen_norm(model)))
    fit(model, tmp_path, [integration.MemoryBudget(None, module="net")])
    assert held and not any(held)


def test_a_budget_that_nothing_uses_is_an_error(integration, tmp_path):
    for validated in (False, True):  # only validation calls it
        with pytest.warns(UserWarning, match="not used yet"), \
                pytest.raises(lowtide.InputError, match="name the module"):
            fit(classifier(validated), tmp_path, [integration.MemoryBudget("90%")])


def test_a_budget_that_nothing_uses_may_be_a_warning(integration, tmp_path):
    plain, _ = fit(classifier(), tmp_path)
    with pytest.warns(UserWarning, match="not used yet") as warned:
        state, _ = fit(classifier(), tmp_path, [integration.MemoryBudget("90%",
                                                                         when_unused="warn")])
    assert sum("not used yet" in str(warning.message) for warning in warned) == 1
    assert all(torch.equal(state[name], plain[name]) for name in plain)
    with pytest.raises(lowtide.InputError, match="when_unused"):
        integration.MemoryBudget("90%", when_unused="never")


def first_batch(gives):
    """A classifier whose first batch does not call its net."""
    def training_step(self, batch, index):
        if index == 0:
            return gives(self)
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    return derived("FirstBatch", training_step=training_step)


@pytest.mark.parametrize("gives, is_warned", [
    (lambda self: None, False), (lambda self: sum(p.sum() for p in self.parameters()), True)],
    ids=["skipped", "without the net"])
def test_the_first_batch_need_not_call_the_module(integration, gives, is_warned, tmp_path):
    plain, _ = fit(first_batch(gives), tmp_path)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        state, logged = fit(first_batch(gives), tmp_path, [
            integration.MemoryBudget("100%", module="net", time_limit=0.3)])
    assert any("not used yet" in str(warning.message) for warning in warned) == is_warned
    assert all(torch.equal(state[name], plain[name]) for name in plain)
    assert logged["lowtide_peak_bytes"] > 0


def test_two_budgets_of_a_module_are_refused(integration, tmp_path):
    with pytest.raises(lowtide.InputError, match="give the trainer one MemoryBudget"):
        fit(classifier(), tmp_path, [integration.MemoryBudget("90%", module="net"),
                                     integration.MemoryBudget("80%", module="net")])


def test_an_unknown_module_is_an_error(integration, tmp_path):
    with pytest.raises(lowtide.InputError, match="it has net"):
        fit(classifier(), tmp_path, [integration.MemoryBudget("90%", module="body")])
