"""Lightning's Trainer within a budget: bits of the plain run, figures in the logs."""

import importlib
import sys

import lowtide
import pytest
import torch
from lowtide.pytorch.budget.memory import outside_room


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

    generator = torch.Generator().manual_seed(1)
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
    assert "forward" not in model.net.__dict__


def test_a_budget_that_nothing_uses_is_an_error(integration, tmp_path):
    with pytest.raises(lowtide.InputError, match="name the module"):
        fit(classifier(), tmp_path, [integration.MemoryBudget("90%")])
    with pytest.raises(lowtide.InputError, match="name the module"):  # only validation calls it
        fit(classifier(validated=True), tmp_path, [integration.MemoryBudget("90%")])


def test_an_unknown_module_is_an_error(integration, tmp_path):
    with pytest.raises(lowtide.InputError, match="it has net"):
        fit(classifier(), tmp_path, [integration.MemoryBudget("90%", module="body")])
