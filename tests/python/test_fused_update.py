"""Parameters that the backward pass updates: the bits of a plain loop, without all gradients."""

import copy
import itertools
import sys

import lowtide
import pytest
import torch
from lowtide.pytorch.common.spent_gradient import SpentGradient
from lowtide.pytorch.optimizer.fused_updates import FusedUpdates
from on_device import DEVICE
from sweep import sweep
from torch import nn
from torch.nn import functional as F
from update_cases import (
    MODELS,
    OPTIMIZERS,
    Layers,
    WithLoss,
    counted_bytes,
    layers_of,
    needed_bytes,
    trained,
)
from wrap_cases import InThreeGraphs, built, same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

def wrapped(model, optimizer, budget=None, x=None, **options):
    return lowtide.wrap(model, x, budget, optimizer=optimizer, fused_update=True, time_limit=0.3,
                        **options)


# In the smallest budget the clock may cut the search for a plan that leaves all that follows.
@pytest.mark.filterwarnings("ignore:lowtide. within this budget, no plan was found")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case, kind, is_small", sweep(
    itertools.product(MODELS, OPTIMIZERS, [False, True]),
    [("convolutions", "momentum", True), ("tied", "adam", True), ("twice", "rmsprop", False),
     ("autocast", "fused adamw", True), ("deep", "amsgrad of all at once", True)]))
def test_training_has_the_bits_of_a_plain_loop(case, kind, is_small):
    make, inputs_of = MODELS[case]
    model = WithLoss(built(make)).to(DEVICE)
    plain = copy.deepcopy(model)
    optimizer, x = OPTIMIZERS[kind](model.parameters()), inputs_of().to(DEVICE)
    budget = needed_bytes(model, optimizer, x, fused_update=True) if is_small else None
    planned = wrapped(model, optimizer, budget, x)
    found = trained(planned, optimizer, inputs_of)
    assert same(found, trained(plain, OPTIMIZERS[kind](plain.parameters()), inputs_of))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not is_small or planned.memory.measured_peak <= planned.memory.budget


def test_gradients_never_exist_all_at_once():
    model, optimizer, x = layers_of(lambda p: torch.optim.AdamW(p, fused=True))
    gradients = sum(parameter.nbytes for parameter in model.parameters())
    largest = max(parameter.nbytes for parameter in model.parameters())
    saved = (needed_bytes(model, optimizer, x)
             - needed_bytes(model, optimizer, x, fused_update=True))
    assert saved > gradients - 2 * largest


@pytest.mark.cpu_only("the profiler counts what the CPU's allocator hands out")
@pytest.mark.parametrize("kind", ["momentum", "adam", "fused adamw"])
def test_a_whole_step_is_within_the_budget(kind):
    model, optimizer, x = layers_of(OPTIMIZERS[kind])
    budget = needed_bytes(model, optimizer, x, fused_update=True)
    planned = wrapped(model, optimizer, budget, x)
    assert counted_bytes(planned, optimizer, x) <= budget


@pytest.mark.parametrize("options", [dict(slices=2), dict(precision="bf16")], ids=str)
def test_with_other_ways_to_need_less(options):
    steps = []
    for fused_update in (False, True):
        model, optimizer, x = layers_of(torch.optim.AdamW)
        planned = lowtide.wrap(model, x, optimizer=optimizer, fused_update=fused_update,
                               time_limit=0.3, **options)
        steps.append(trained(planned, optimizer, lambda: torch.randn(4, 128)))
    assert same(*steps)


def test_checkpoints_go_on_without_it():
    model, optimizer, x = layers_of(torch.optim.Adam)
    plain = copy.deepcopy(model)
    trained(wrapped(model, optimizer, None, x), optimizer, lambda: torch.randn(4, 128))
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    others = torch.optim.Adam(plain.parameters())
    plain.load_state_dict(saved[0])
    others.load_state_dict(saved[1])
    assert same(trained(wrapped(model, optimizer, None, x), optimizer,
                        lambda: torch.randn(4, 128)),
                trained(plain, others, lambda: torch.randn(4, 128)))


def test_graphs_behind_breaks_update_their_own():
    make = lambda: InThreeGraphs(lambda: nn.Linear(16, 16))  # noqa: E731
    model, plain = built(make).to(DEVICE), built(make).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    found = trained(wrapped(model, optimizer), optimizer, lambda: torch.randn(4, 16))
    assert same(found, trained(plain, torch.optim.Adam(plain.parameters()),
                               lambda: torch.randn(4, 16)))


def test_parameters_outside_of_the_graph_are_updated_by_the_step():
    class Unused(Layers):
        def __init__(self):
            super().__init__(layers=2)
            self.scale = nn.Parameter(torch.ones(()))

    def losses(model, planned, optimizer):
        found = []
        for _ in range(3):
            loss = planned(x) * model.scale
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.detach())
        return found

    x = torch.randn(4, 128, device=DEVICE)
    model, plain = built(Unused).to(DEVICE), built(Unused).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    found = losses(model, wrapped(model, optimizer), optimizer)
    assert same(found, losses(plain, plain, torch.optim.SGD(plain.parameters(), 0.1)))


def test_a_smaller_budget_between_the_passes_runs_the_forward_pass_again():
    model, optimizer, x = layers_of(torch.optim.Adam)
    plain = copy.deepcopy(model)
    others = torch.optim.Adam(plain.parameters())
    least = needed_bytes(model, optimizer, x, fused_update=True) + 4096
    planned = wrapped(model, optimizer, 2 * least, x)
    for _ in range(3):
        loss = planned(x)
        planned.budget = least
        loss.backward()
        optimizer.step()
        planned.budget = 2 * least
        plain(x).backward()
        others.step()
        others.zero_grad()
    assert same(list(model.parameters()), list(plain.parameters()))


def test_a_second_backward_pass_before_the_step_is_an_error():
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned = wrapped(model, optimizer, None, x)
    planned(x).backward()
    with pytest.raises(lowtide.Error, match="after each backward"):
        planned(x).backward()


def test_a_forward_pass_from_before_the_update_is_an_error():
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned = wrapped(model, optimizer, None, x)
    losses = planned(x), planned(2 * x)
    losses[0].backward()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        losses[1].backward()


def test_a_gradient_from_before_is_an_error():
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned = wrapped(model, optimizer, None, x)
    model.layers[0].weight.grad = torch.zeros_like(model.layers[0].weight)
    with pytest.raises(lowtide.Error, match="zero_grad"):
        planned(x).backward()


def test_a_gradient_from_outside_is_an_error():
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned = wrapped(model, optimizer, None, x)
    planned(x).backward()
    with pytest.raises(RuntimeError):
        model.layers[0].weight.sum().backward()
    model.layers[0].weight.grad = None
    model.layers[0].weight.sum().backward()
    with pytest.raises(lowtide.Error, match="had updated it"):
        optimizer.step()


@pytest.mark.parametrize("use", [
    lambda model, optimizer: nn.utils.clip_grad_norm_(model.parameters(), 1.0),
    lambda model, optimizer: nn.utils.clip_grad_value_(model.parameters(), 1.0),
    lambda model, optimizer: [p.grad.mul_(0.5) for p in model.parameters()],
    lambda model, optimizer: sum(p.grad.norm() for p in model.parameters()),
], ids=["clip the norm", "clip values", "scale", "look"])
def test_what_needs_gradients_is_told_that_they_are_spent(use):
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned = wrapped(model, optimizer, None, x)
    planned(x).backward()
    with pytest.raises(lowtide.Error, match="fused_update=True of lowtide.wrap has used"):
        use(model, optimizer)
    assert model.layers[0].weight.grad.shape == (128, 128)
    assert "SpentGradient" in repr(model.layers[0].weight.grad)
    optimizer.step()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_spent_gradients_are_no_memory_that_is_kept():
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned = wrapped(model, optimizer, None, x)
    planned(x).backward()
    existing = planned.memory.existing
    planned(x)  # as to look at a loss before the step
    assert planned.memory.existing == existing


def test_an_error_of_the_optimizer_is_the_backward_passes():
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned = wrapped(model, optimizer, None, x)
    optimizer.param_groups[0]["lr"] = "fast"
    with pytest.raises(Exception, match=r"fast|str|not supported"):
        planned(x).backward()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_an_interrupt_within_an_update_is_raised_as_it_is(monkeypatch):
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned = wrapped(model, optimizer, None, x)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(sys.modules["torch.optim.adam"], "adam", interrupted)
        with pytest.raises(KeyboardInterrupt):
            planned(x).backward()
    optimizer.step()
    planned(x).backward()
    optimizer.step()


def test_a_closure_has_the_bits_of_a_plain_loop():
    def train(run, optimizer):
        def closure():
            optimizer.zero_grad()
            loss = run(x)
            loss.backward()
            return loss

        return [optimizer.step(closure).detach() for _ in range(3)]

    model, optimizer, x = layers_of(torch.optim.Adam)
    plain = copy.deepcopy(model)
    found = train(wrapped(model, optimizer, None, x), optimizer)
    assert same(found, train(plain, torch.optim.Adam(plain.parameters())))
    assert same(list(model.parameters()), list(plain.parameters()))


def test_gradients_of_others_update_nothing():
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned, before = wrapped(model, optimizer, None, x), copy.deepcopy(model)
    x.requires_grad_()
    found, wanted = (torch.autograd.grad(run(x), x)[0] for run in (planned, before))
    assert torch.equal(found, wanted)
    assert same(list(model.parameters()), list(before.parameters()))
    planned(x).backward(inputs=[model.layers[0].bias])
    changed = [not torch.equal(ours, theirs) for ours, theirs
               in zip(model.parameters(), before.parameters())]
    assert changed == [False, True] + [False] * (len(changed) - 2)


def test_gradients_that_are_asked_for_are_an_error():
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned, before = wrapped(model, optimizer, None, x), copy.deepcopy(model)
    with pytest.raises(lowtide.Error, match="call backward"):
        torch.autograd.grad(planned(x), list(model.parameters()))
    assert same(list(model.parameters()), list(before.parameters()))


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_for_a_gradient_is_an_error_before_any_update(register):
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned, before = wrapped(model, optimizer, None, x), copy.deepcopy(model)
    handle = getattr(model.layers[0].weight, register)(lambda _: None)
    with pytest.raises(lowtide.Error, match="remove the hook"):
        planned(x).backward()
    assert same(list(model.parameters()), list(before.parameters()))
    handle.remove()
    planned(x).backward()
    optimizer.step()


def test_options_that_change_after_the_update_are_an_error():
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned = wrapped(model, optimizer, None, x)
    planned(x).backward()
    optimizer.param_groups[0]["lr"] *= 0.5
    with pytest.raises(lowtide.Error, match="changed after the backward pass"):
        optimizer.step()
    planned(x).backward()
    optimizer.step()


def test_a_rate_that_is_a_tensor_and_changes_after_the_update_is_an_error():
    model, optimizer, x = layers_of(lambda p: torch.optim.Adam(p, torch.tensor(1e-3)))
    planned = wrapped(model, optimizer, None, x)
    planned(x).backward()
    optimizer.param_groups[0]["lr"].fill_(0.1)
    with pytest.raises(lowtide.Error, match="changed after the backward pass"):
        optimizer.step()


class TwoResults(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        return self.first(x).square().mean(), self.second(x).square().mean()


def test_parameters_behind_results_that_the_loss_leaves_out_are_left_alone():
    model = built(TwoResults).to(DEVICE)
    plain, x = copy.deepcopy(model), torch.randn(8, 16, device=DEVICE)
    optimizer, of_plain = torch.optim.Adam(model.parameters()), torch.optim.Adam(plain.parameters())
    planned = wrapped(model, optimizer, None, x)
    for uses_first in (False, False, True, True):
        result = planned(x)
        try:
            (result[0] if uses_first else sum(result)).backward()
        except lowtide.Error as error:
            assert uses_first and "Nothing was updated" in str(error)
            planned(x)[0].backward()
        expected = plain(x)
        (expected[0] if uses_first else sum(expected)).backward()
        for one in (optimizer, of_plain):
            one.step()
            one.zero_grad()
        assert same(list(model.parameters()), list(plain.parameters()))
        assert [optimizer.state[p]["step"] for p in model.parameters()] == [
            of_plain.state[p]["step"] for p in plain.parameters()]


def test_parameters_without_elements():
    class Empty(Layers):
        def __init__(self):
            super().__init__(layers=1)
            self.first, self.second = (nn.Parameter(torch.zeros(0, 8)) for _ in range(2))

        def forward(self, x):
            return super().forward(x) + self.first.sum() + self.second.sum()

    model = built(Empty).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    wrapped(model, optimizer)(torch.randn(4, 128, device=DEVICE)).backward()
    optimizer.step()


@pytest.mark.parametrize("make, options, reason", [
    (lambda p: "adam", {}, "itself was not given"),
    (lambda p: None, {}, "itself was not given"),
    (lambda p: torch.optim.LBFGS(p), {}, "not known to treat each element"),
    (lambda p: torch.optim.SGD(list(p)[1:], 0.1), {}, "are not the optimizer's"),
    (torch.optim.Adam, dict(precision="fp16"), "GradScaler"),
    (torch.optim.Adam, dict(mode="inductor"), "executor"),
    (torch.optim.Adam, dict(cuda_graph=True), "cuda_graph"),
])
def test_what_cannot_be_is_refused(make, options, reason):
    model = built(Layers)
    with pytest.raises(lowtide.InputError, match=reason):
        wrapped(model, make(model.parameters()), None, torch.randn(4, 128), **options)


def test_parameters_of_another_optimizer_are_an_error():
    model, _, x = layers_of(torch.optim.Adam)
    optimizer = torch.optim.Adam(built(Layers).to(DEVICE).parameters())
    compiled = torch.compile(model, backend="lowtide",
                             options={"optimizer": optimizer, "fused_update": True})
    with pytest.raises(lowtide.Error, match="is not the optimizer's"):
        compiled(x).backward()


def test_frozen_parameters_stay():
    model, _, x = layers_of(torch.optim.Adam)
    for parameter in model.layers[0].parameters():
        parameter.requires_grad_(False)
    before = model.layers[0].weight.clone()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    planned = wrapped(model, optimizer, None, x)
    planned(x).backward()
    assert torch.equal(model.layers[0].weight, before)
    assert model.layers[0].weight.grad is None and optimizer.state


def test_a_model_that_is_gone_before_the_step_leaves_nothing_to_update():
    model, optimizer, x = layers_of(torch.optim.Adam)
    wrapped(model, optimizer)(x).backward()
    after_backward = copy.deepcopy(model)
    optimizer.step()
    assert same(list(model.parameters()), list(after_backward.parameters()))


def test_a_plain_copy_trains_as_ever():
    model, optimizer, x = layers_of(torch.optim.Adam)
    wrapped(model, optimizer, None, x)
    F.mse_loss(model(x), torch.zeros((), device=DEVICE)).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    optimizer.step()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("updated", [1, 3])
def test_a_backward_pass_that_fails_ends_the_step_of_what_it_updated(error, updated, monkeypatch):
    model, optimizer, x = layers_of(OPTIMIZERS["momentum"])
    plain = copy.deepcopy(model)
    others = OPTIMIZERS["momentum"](plain.parameters())
    planned = wrapped(model, optimizer, None, x)
    done, update = [], FusedUpdates._update

    def failing(self, parameter, gradient):
        if len(done) == updated:
            raise error("in the middle")
        done.append(parameter)
        update(self, parameter, gradient)

    with monkeypatch.context() as patch:
        patch.setattr(FusedUpdates, "_update", failing)
        with pytest.raises(error, match="in the middle"):
            planned(x).backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    plain(x).backward()
    for own, other in zip(model.parameters(), plain.parameters()):
        if not any(own is one for one in done):
            other.grad = None
    others.step()
    for one, one_optimizer in ((planned, optimizer), (plain, others)):
        for _ in range(2):
            one_optimizer.zero_grad()
            one(x).backward()
            one_optimizer.step()
    assert same(list(model.parameters()), list(plain.parameters()))


@pytest.mark.parametrize("convert", [
    lambda model: model.to(torch.float64), lambda model: model.double(),
    lambda model: model.half().float(), lambda model: model.to(DEVICE), lambda model: model.cpu()])
def test_a_model_may_be_converted_before_its_step_ends(convert):
    model, optimizer, x = layers_of(OPTIMIZERS["momentum"])
    planned = wrapped(model, optimizer, None, x)
    planned(x).backward()
    updated = copy.deepcopy(list(model.parameters()))
    convert(planned)
    converted = convert(nn.ParameterList(updated))
    for parameter in model.parameters():
        assert isinstance(parameter.grad, SpentGradient)
        with torch._C.DisableTorchFunctionSubclass():
            assert parameter.grad.dtype == parameter.dtype
            assert parameter.grad.untyped_storage().nbytes() == parameter.element_size()
    assert same(list(model.parameters()), list(converted))
    optimizer.step()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert same(list(model.parameters()), list(converted))
