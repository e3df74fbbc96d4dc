"""Training in slices of the batch: the model's results but for rounding, in less memory."""

import copy

import lowtide
import pytest
import torch
from lowtide.pytorch.slices import rules
from on_device import DEVICE
from slices_cases import (
    CASES,
    ROWS,
    ZOO,
    Calls,
    Tied,
    Wide,
    floats,
    needed_bytes,
    number_of_slices,
    tokens,
)
from sweep import sweep
from torch import nn
from torch.nn import functional as F
from wrap_cases import Attention, Convolutions

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

#: Of float64: far above what rounding changes, far below what a wrong sum does.
TOLERANCE = 1e-9


def made(case):
    torch.manual_seed(0)
    model, inputs = case()
    return model.double().to(DEVICE), inputs


def after_a_step(model, inputs):
    """The results, gradients of parameters and inputs, and buffers that a step leaves."""
    inputs = [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]
    results = model(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    sum((result * torch.linspace(0.5, 1, result.numel(), dtype=result.dtype, device=result.device)
         .view(result.shape)).sum() for result in results).backward()
    return [*(result.detach() for result in results), *(x.grad for x in inputs),
            *(parameter.grad for parameter in model.parameters()), *model.buffers()]


def distance(ours, theirs):
    """Relative to the largest element; a gradient that is zero but for rounding has none."""
    assert (ours is None) == (theirs is None)
    if ours is None or not ours.numel():
        return 0.0
    assert ours.shape == theirs.shape
    ours, theirs = ours.double(), theirs.double()
    return ((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-3)).item()


def require_the_same_step(case, slices):
    model, inputs = made(case)
    plain = copy.deepcopy(model)
    wrapped = lowtide.wrap(model, inputs, slices=slices, optimizer="none", time_limit=0.3)
    found, wanted = after_a_step(wrapped, inputs), after_a_step(plain, inputs)
    assert max(distance(a, b) for a, b in zip(found, wanted, strict=True)) < TOLERANCE


@pytest.mark.filterwarnings("error", "ignore:.*eval mode")
@pytest.mark.parametrize("slices", sweep([2, 4], [4]))
@pytest.mark.parametrize("name", CASES)
def test_a_step_is_the_models_but_for_rounding(name, slices):
    require_the_same_step(CASES[name], slices)


@pytest.mark.parametrize("name, slices", sweep(
    [(name, slices) for name in ZOO for slices in (2, 3, 5, 6, 9)],
    [(name, 3) for name in ZOO if name != "unet"]))
def test_models_of_the_zoo(name, slices):
    require_the_same_step(ZOO[name], slices)


@pytest.mark.parametrize("name", sweep(["unet", "gpt"], ["gpt"]))
def test_within_a_budget_the_bits_are_those_of_the_same_slices(name):
    model, inputs = made(ZOO[name])
    steps = []
    for budget in (None, needed_bytes(model, inputs, 3)):
        own = copy.deepcopy(model)
        wrapped = lowtide.wrap(own, inputs, budget, slices=3, optimizer="none", time_limit=0.5)
        steps.append(after_a_step(wrapped, inputs))
        assert budget is None or wrapped.memory.measured_peak <= wrapped.memory.budget
    assert all(a is b or torch.equal(a, b) for a, b in zip(*steps))


@pytest.mark.sweep
@pytest.mark.cpu_only("a capture is not run")
def test_every_rule_is_used_by_a_case():
    used = set().union(*map(types_in_slices, [*CASES.values(), *ZOO.values()]))
    assert {rule.name() for rule in rules.TARGETS} - used == SHOWN_AS_OTHERS


#: Their slices are calls of other ops, or they are written as sums.
SHOWN_AS_OTHERS = {"aten::_native_batch_norm_legit_functional", "aten::_unsafe_view",
                   "aten::squeeze", "aten::squeeze.dim"}


def types_in_slices(case):
    torch._dynamo.reset()
    graph = lowtide.capture(*made(case), slices=2)
    return {op.type for op in graph.ops if "_slice1" in op.name}


def test_the_largest_op_is_no_floor():
    inputs = tokens(4000, 8, 64), tokens(4000, 8, 64)
    whole = needed_bytes(Wide().to(DEVICE), inputs, 1)
    logits = 8 * 64 * 4000 * 4
    parameters = 2 * 2 * 4000 * 16 * 4  # and their gradients
    assert whole > 2 * logits
    assert needed_bytes(Wide().to(DEVICE), inputs, 8) < parameters + logits


def test_a_head_that_is_the_embedding_has_one_gradient():
    inputs = tokens(4000, 8, 64), tokens(4000, 8, 64)
    table, logits = 4000 * 128 * 4, 64 * 4000 * 4
    assert needed_bytes(Tied().to(DEVICE), inputs, 8) < 2 * table + 2.5 * logits


def test_one_sequence_runs_in_slices_of_its_time():
    inputs = tokens(4000, 1, 256), tokens(4000, 1, 256)
    assert (needed_bytes(Wide().to(DEVICE), inputs, 8)
            < 0.7 * needed_bytes(Wide().to(DEVICE), inputs, 1))


def test_more_slices_than_rows_are_as_many_as_rows():
    model, inputs = made(CASES["layer norm"])
    wrapped = lowtide.wrap(model, inputs, slices=100, time_limit=0.3)
    assert number_of_slices(wrapped) == ROWS


def test_other_sizes_are_cut_anew():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4)).to(DEVICE)
    plain = copy.deepcopy(model)
    wrapped = lowtide.wrap(model, None, slices=4, time_limit=0.3)
    for rows in (8, 8, 5, 1):
        x = torch.randn(rows, 8, device=DEVICE)
        wrapped(x).sum().backward()
        plain(x).sum().backward()
    for ours, theirs in zip(model.parameters(), plain.parameters()):
        assert distance(ours.grad, theirs.grad) < 1e-5


def test_dropout_drops_as_many_elements():
    model = Calls(lambda linear, x: F.dropout(linear(x), 0.3), nn.Linear(64, 64)).to(DEVICE)
    wrapped = lowtide.wrap(model, None, slices=4, time_limit=0.3)
    dropped = wrapped(torch.randn(256, 64, device=DEVICE)) == 0
    assert abs(dropped.float().mean().item() - 0.3) < 0.03
    first, *others = dropped.split(64)
    assert not any(torch.equal(first, other) for other in others)


def test_dropout_draws_the_same_when_it_runs_again():
    x = tokens(50, 8, 12)
    steps = []
    for budget in (None, "60%"):
        torch.manual_seed(0)
        model = Attention().to(DEVICE)
        wrapped = lowtide.wrap(model, x, budget, slices=4, optimizer="none", time_limit=0.5)
        torch.manual_seed(5)
        steps.append(after_a_step(wrapped, [x]))
    assert all(a is None or torch.equal(a, b) for a, b in zip(*steps))


def test_batch_norms_statistics_are_those_of_the_batch():
    torch.manual_seed(0)
    model = Convolutions().to(DEVICE)
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    plain = copy.deepcopy(model)
    wrapped = lowtide.wrap(model, None, slices=3, time_limit=0.3)
    for _ in range(3):
        x = torch.randn(6, 3, 16, 16, device=DEVICE) + 3
        wrapped(x).sum().backward()
        plain(x).sum().backward()
    for ours, theirs in zip(model.buffers(), plain.buffers()):
        assert distance(ours, theirs) < 1e-5


def test_sums_of_half_precision_round_once_more_at_most():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).to(DEVICE)
    x = torch.randn(256, 32, device=DEVICE)
    errors = []
    exact = copy.deepcopy(model).double()
    exact(x.double()).square().mean().backward()
    for slices in (1, 8):
        own = copy.deepcopy(model)
        wrapped = lowtide.wrap(own, x, slices=slices, precision="bf16", time_limit=0.3)
        wrapped(x).float().square().mean().backward()
        errors.append(max(distance(a.grad, b.grad) for a, b in
                          zip(own.parameters(), exact.parameters())))
    assert errors[1] < 1.5 * errors[0]


@pytest.mark.parametrize("function", [
    lambda x: x.mean(), lambda x: x.mean(0), lambda x: F.mse_loss(x, 0.9 * x.detach()) * 50,
], ids=["mean", "mean of each", "squares"])
def test_a_mean_is_finite_where_its_sum_is_not(function):
    model, x = Calls(function), torch.full((16384, 4), 9.0, dtype=torch.float16, device=DEVICE)
    wrapped = lowtide.wrap(model, None, slices=2, time_limit=0.3)
    found, wanted = (after_a_step(run, [x]) for run in (wrapped, model))
    assert all(distance(a, b) < 1e-3 for a, b in zip(found, wanted, strict=True))


def test_the_mean_of_no_elements_is_no_number():
    model = Calls(lambda linear, x: (linear(x).sum(), linear(x)[:, :0].mean()), nn.Linear(4, 4))
    model, x = model.double().to(DEVICE), floats(4)
    wrapped = lowtide.wrap(copy.deepcopy(model), None, slices=2, time_limit=0.3)
    found, wanted = (after_a_step(run, [x]) for run in (wrapped, model))
    torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_batch_norm_of_half_precision(dtype):
    torch.manual_seed(0)
    model = nn.BatchNorm2d(4).to(DEVICE, dtype)
    x = torch.randn(ROWS, 4, 8, 8, dtype=dtype, device=DEVICE)
    wrapped = lowtide.wrap(copy.deepcopy(model), None, slices=3, time_limit=0.3)
    found, wanted = (after_a_step(run, [x]) for run in (wrapped, model))
    assert all(distance(a, b) < 0.02 for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("slices", [0, -1, 1.5, True, "many", None])
def test_what_is_no_number_of_slices_is_refused(slices):
    with pytest.raises(lowtide.InputError, match="slices"):
        lowtide.wrap(nn.Linear(2, 2), slices=slices)


def test_inductor_has_none():
    with pytest.raises(lowtide.InputError, match="executor"):
        lowtide.wrap(nn.Linear(2, 2), slices=2, mode="inductor")


def test_a_model_whose_inputs_have_no_rows_says_so():
    wrapped = lowtide.wrap(nn.Linear(4, 4).to(DEVICE), slices=2, time_limit=0.3)
    with pytest.warns(UserWarning, match="runs in slices"):
        wrapped(torch.randn(1, 1, 4, device=DEVICE)).sum().backward()


@pytest.mark.cpu_only("a capture is not run")
def test_a_capture_in_slices_can_be_planned():
    model, inputs = made(CASES["transformer"])
    graphs = [lowtide.capture(model, inputs, slices=slices) for slices in (1, 3)]
    assert len(graphs[1].ops) > 2 * len(graphs[0].ops)
    assert lowtide.plan(graphs[1], "80%", time_limit=2.0).plan is not None
    with pytest.raises(lowtide.InputError, match="leave slices out"):
        lowtide.capture(nn.Linear(4, 4), torch.randn(1, 1, 4), slices=2)
