"""Training with values held in fewer bits between the passes."""

import copy
import re

import lowtide
import pytest
import torch
from lowtide.pytorch.autograd import graphs
from lowtide.pytorch.wrap import session_of
from on_device import DEVICE
from stash_cases import Pooled, Rectified, Unpooled, all_stashed, images
from sweep import sweep
from torch import nn
from torch.nn import functional as F
from torch_memory import profiled
from wrap_cases import Attention, Convolutions, built, same, train

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

SGD = {"optimizer": "sgd", "time_limit": 1, "verbose": False}


def region_of(model):
    (region,) = session_of(model).regions
    return region


def least_budget(make, inputs, **options):
    with pytest.raises(lowtide.InfeasibleError) as caught:
        lowtide.wrap(built(make).to(DEVICE), inputs, budget=1, **SGD | options)
    return caught.value.smallest_budget


def planned_cost(model):
    return session_of(model).plan_for(region_of(model)).cost


def costs_by_budget(make, inputs, stash):
    """By share of keep-all: the predicted time, None where nothing fits."""
    costs = {}
    for percent in (95, 80):
        try:
            wrapped = lowtide.wrap(built(make).to(DEVICE), inputs, budget=f"{percent}%",
                                   stash=stash, **SGD)
            costs[percent] = planned_cost(wrapped)
        except lowtide.InfeasibleError:
            costs[percent] = float("inf")
    return costs


@pytest.mark.parametrize("seed, channels_last", sweep(
    [(seed, last) for seed in range(60) for last in (False, True)],
    usual=[(seed, seed % 2 == 0) for seed in range(6)]))
def test_whatever_is_stashed_the_bits_are_those_of_eager_pytorch(monkeypatch, seed, channels_last):
    made = all_stashed(monkeypatch)

    def make():
        return Pooled(seed).to(DEVICE)

    wrapped = lowtide.wrap(built(make), images(channels_last), **SGD)
    assert same(train(wrapped, lambda: images(channels_last)),
                train(built(make), lambda: images(channels_last)))
    assert made[0].stashes


class HalfDropout(nn.Module):
    """Draws zeros and ones of half precision."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(20, 64), nn.Linear(64, 20)

    def forward(self, x):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return self.second(F.dropout(self.first(x).view(-1, 8, 64).transpose(1, 2), 0.3)
                               .transpose(1, 2)).float()


MODELS = {
    "convolutions": (Convolutions, lambda: (torch.randn(4, 3, 16, 16, device=DEVICE),)),
    "attention": (Attention, lambda: (torch.randint(0, 50, (8, 32), device=DEVICE),)),
    "half dropout": (HalfDropout, lambda: (torch.randn(256, 20, device=DEVICE),)),
    "unpooled": (Unpooled, images),
}


@pytest.mark.parametrize("make, inputs", MODELS.values(), ids=MODELS)
def test_models_of_other_kinds_keep_their_bits(monkeypatch, make, inputs):
    made = all_stashed(monkeypatch)
    wrapped = lowtide.wrap(built(make).to(DEVICE), inputs(), **SGD)
    assert same(train(wrapped, inputs), train(built(make).to(DEVICE), inputs))
    assert made[0].stashes


@pytest.mark.parametrize("options", [dict(slices=2), dict(fused_update=True),
                                     dict(precision="bf16")], ids=str)
def test_it_goes_with_other_options(monkeypatch, options):
    inputs = images()

    def losses(stash):
        model = built(Rectified).to(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        wrapped = lowtide.wrap(model, inputs, optimizer=optimizer, stash=stash, verbose=False,
                               **options)
        left = []
        torch.manual_seed(3)
        for _ in range(3):
            loss = wrapped(*inputs)
            loss.backward()
            optimizer.step()
            left.append(loss.detach().clone())
        return left + [parameter.detach().clone() for parameter in model.parameters()]

    plain = losses(None)
    made = all_stashed(monkeypatch)
    stashed = losses("exact")
    assert made[0].stashes and same(stashed, plain)


@pytest.mark.cpu_only("values move to a disk from the CPU alone")
def test_it_goes_with_values_that_move(monkeypatch, tmp_path):
    made = all_stashed(monkeypatch)
    inputs = images()
    wrapped = lowtide.wrap(built(Rectified), inputs, budget="90%", offload=str(tmp_path), **SGD)
    assert same(train(wrapped, lambda: inputs), train(built(Rectified), lambda: inputs))
    assert made[0].stashes


def test_less_memory_does_and_nothing_takes_longer():
    inputs = images()
    without, exact = (least_budget(Rectified, inputs, stash=stash) for stash in (None, "exact"))
    assert exact < 0.9 * without
    costs = costs_by_budget(Rectified, inputs, "exact")
    assert all(costs[percent] <= cost * (1 + 1e-9)
               for percent, cost in costs_by_budget(Rectified, inputs, None).items())


def test_the_least_budget_is_kept_with_the_bits_of_eager_pytorch(monkeypatch):
    inputs, limits = images(), []
    budget = least_budget(Rectified, inputs)

    class Counted(graphs.Region):
        def __init__(self, captured, settings, *rest):
            limits.append(settings.time_limit)
            super().__init__(captured, settings, *rest)

    monkeypatch.setattr(graphs, "Region", Counted)
    wrapped = lowtide.wrap(built(Rectified).to(DEVICE), inputs, budget=budget, **SGD)
    left = train(wrapped, lambda: inputs)
    assert region_of(wrapped).stashes
    assert 1 < len(limits) <= 8
    assert limits == [SGD["time_limit"], *(0.05 * SGD["time_limit"] for _ in limits[1:])]
    assert wrapped.memory.measured_peak <= budget
    assert same(left, train(built(Rectified).to(DEVICE), lambda: inputs))
    explained = lowtide.explain(wrapped)
    assert "values held in fewer bits between the passes:" in explained and "as bits" in explained


@pytest.mark.parametrize("options, others", [
    ({"stash": None}, ""), ({}, "other values held in fewer bits"),
    ({"slices": "auto"}, "other values held in fewer bits or other numbers of slices")], ids=str)
def test_explain_says_of_which_choices_its_bound_is(options, others):
    inputs = images()
    budget = int(1.02 * least_budget(Rectified, inputs, stash=options.get("stash", "exact")))
    wrapped = lowtide.wrap(built(Rectified).to(DEVICE), inputs, budget=budget, **SGD | options)
    if options and others and not region_of(wrapped).stashes:
        others = others.removeprefix("other ")
    text = lowtide.explain(wrapped)
    (percent,) = re.findall(r"No plan of this graph costs less than (.*)% more than keep-all", text)
    kept = region_of(wrapped).priced.keep_all_cost
    assert 0 <= float(percent) <= 100 * (planned_cost(wrapped) / kept - 1) + 0.01
    assert re.findall(r"That says nothing of (.*)\.", text) == ([others] if others else [])


def test_somebody_else_counts_fewer_bytes(monkeypatch):
    """PyTorch's profiler, of steps in which all values are kept."""
    inputs = images()

    def counted(stash):
        wrapped = lowtide.wrap(built(Rectified).to(DEVICE), inputs, stash=stash, **SGD)
        train(wrapped, lambda: inputs, steps=1)
        session_of(wrapped).release()
        peak, *_ = profiled(lambda: wrapped(*inputs).backward())
        return peak, wrapped.memory.planned_above

    kept, planned_kept = counted(None)
    all_stashed(monkeypatch)
    stashed, planned_stashed = counted("exact")
    assert stashed < 0.7 * kept
    assert kept - stashed == pytest.approx(planned_kept - planned_stashed, rel=0.05)


def test_where_all_fits_nothing_is_stashed():
    for budget in (None, "100%"):
        wrapped = lowtide.wrap(built(Rectified).to(DEVICE), images(), budget=budget, stash="int8",
                               **SGD)
        assert not region_of(wrapped).stashes


def test_small_values_and_results_are_left_alone(monkeypatch):
    made = all_stashed(monkeypatch)

    class Small(nn.Sequential):
        def forward(self, x):
            result = super().forward(x)
            return result, result.relu()

    lowtide.wrap(Small(nn.Linear(8, 8)).to(DEVICE), torch.randn(100, 8, device=DEVICE), **SGD)
    assert not made[0].stashes


def test_a_captured_step_holds_all_that_may_be():
    def captured(stash):
        return lowtide.capture(built(Rectified), images(), stash=stash)

    def peak(stash):
        graph = captured(stash)
        return lowtide.replay(graph, lowtide.keep_all(graph)).peak_bytes

    assert peak("int8") <= peak("exact") < 0.75 * peak(None)
    types = {kind: {op.type for op in captured(kind).ops} for kind in (None, "exact", "int8")}
    assert "lowtide::to_blocks" in types["int8"] - types["exact"]
    assert {"lowtide::passing_bits", "lowtide::window_places"} <= types["exact"] - types[None]
    with pytest.raises(lowtide.InputError, match="stash must be"):
        captured("int4")


# ---- With loss


def tanhs():
    return nn.Sequential(*(layer for channels in (3, 16, 16, 16, 16) for layer in (
        nn.Conv2d(channels, 16, 3, padding=1), nn.Tanh())))


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = tanhs()

    def forward(self, x):
        return (self.layers(x) - 0.3).square().mean()


#: What the gradients of these few layers may be off by.
MOST_ERROR = {"bf16": 1e-2, "fp16": 1e-3, "int8": 3e-2}


@pytest.mark.parametrize("kind", MOST_ERROR)
def test_the_error_of_the_gradients_is_told_as_it_is(monkeypatch, kind):
    all_stashed(monkeypatch, exact=False)
    inputs = images()
    with pytest.warns(UserWarning, match=f'stash="{kind}" allows: relative error'):
        wrapped = lowtide.wrap(built(Loss).to(DEVICE), inputs, stash=kind, **SGD)
    told = region_of(wrapped).gradient_error
    assert str(told) in lowtide.explain(wrapped)

    def gradients(model):
        model(*inputs).backward()
        return [parameter.grad.double() for parameter in model.parameters()]

    ours, exact = gradients(wrapped), gradients(built(Loss).to(DEVICE))
    errors = [((a - b).norm() / b.norm()).item() for a, b in zip(ours, exact)]
    whole = torch.cat([(a - b).flatten() for a, b in zip(ours, exact)]).norm() / torch.cat(
        [b.flatten() for b in exact]).norm()
    assert told.relative == pytest.approx(whole.item(), rel=1e-6)
    assert told.worst == pytest.approx(max(errors), rel=1e-6)
    assert 0 < told.relative < MOST_ERROR[kind]


def test_the_error_of_gradients_that_are_no_numbers_is_none(monkeypatch):
    all_stashed(monkeypatch, exact=False)
    x, = images()
    with pytest.warns(UserWarning, match="relative error of the gradients of one batch: nan"):
        wrapped = lowtide.wrap(built(Loss).to(DEVICE), x * float("nan"), stash="bf16", **SGD)
    wrapped(x).backward()
    assert wrapped.layers[0].weight.grad.isfinite().all()


@pytest.mark.parametrize("kind", MOST_ERROR)
def test_it_is_measured_on_the_first_batch_and_changes_nothing(monkeypatch, kind):
    all_stashed(monkeypatch, exact=False)
    model = nn.Sequential(*tanhs(), nn.BatchNorm2d(16), nn.Dropout(0.1)).to(DEVICE)
    plain = copy.deepcopy(model)
    wrapped = lowtide.wrap(model, stash=kind, **SGD)
    inputs = images()
    torch.manual_seed(4)
    with pytest.warns(UserWarning, match="relative error"):
        result = wrapped(*inputs)
    torch.manual_seed(4)
    assert torch.equal(result, plain(*inputs))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(model.buffers(), plain.buffers()))


def test_training_goes_on_as_without(monkeypatch):
    def losses(stash):
        model = built(Loss).to(DEVICE)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        wrapped = lowtide.wrap(model, images(), optimizer=optimizer, stash=stash, verbose=False)
        torch.manual_seed(2)
        found = []
        for _ in range(15):
            loss = wrapped(*images())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    exact = losses(None)
    all_stashed(monkeypatch, exact=False)
    with pytest.warns(UserWarning, match="with loss"):
        stashed = losses("int8")
    assert stashed[0] == exact[0] and stashed[-1] < 0.5 * stashed[0]
    assert stashed[-1] == pytest.approx(exact[-1], rel=0.05)


def test_a_relu_passes_gradients_by_its_exact_result(monkeypatch):
    """8 bits take a small value for zero, whose gradient would be lost."""
    made = all_stashed(monkeypatch, exact=False)
    x = torch.full((64, 64), 1e-4, device=DEVICE)
    x[:, 0] = 1.0
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.ReLU(), nn.Linear(64, 64, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(64))
    model = model.to(DEVICE)
    plain = copy.deepcopy(model)
    with pytest.warns(UserWarning, match="with loss"):
        wrapped = lowtide.wrap(model, x, stash="int8", **SGD)
    wrapped(x).sum().backward()
    plain(x).sum().backward()
    assert "int8 and bits" in {stash.form_name for stash in made[0].stashes}
    assert torch.equal(model[0].weight.grad, plain[0].weight.grad)


# ---- Refusals


def test_other_values_are_refused():
    for wrong in ("int4", True, 8):
        with pytest.raises(lowtide.InputError, match="stash must be"):
            lowtide.wrap(nn.Linear(2, 2), stash=wrong)


def test_inductor_holds_values_as_they_are():
    with pytest.raises(lowtide.InputError, match="stash='int8' is for mode"):
        lowtide.wrap(nn.Linear(2, 2), mode="inductor", stash="int8")


class Drawn(nn.Module):
    """Masks of zeros and one over a number of any sign, and parts of masks."""

    def __init__(self, divisor):
        super().__init__()
        self.divisor, self.layer = divisor, nn.Linear(64, 64)

    def forward(self, x):
        x = self.layer(x)
        x = x.tanh() * (torch.empty_like(x).bernoulli_(0.5) / self.divisor)
        left, right = (x > 0).chunk(2, 1)
        low, high = x.chunk(2, 1)
        return torch.cat([torch.where(left, low.tanh(), 0.0), torch.where(right, high.sin(), 1.0)],
                         1).square().mean()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("divisor", [0.5, -0.5, 3e38, float("inf")])
def test_masks_over_any_number_and_parts_of_masks_have_the_bits_of_eager_pytorch(
        monkeypatch, divisor, dtype):
    all_stashed(monkeypatch)
    model = built(lambda: Drawn(divisor)).to(DEVICE, dtype)
    plain, x = copy.deepcopy(model), torch.randn(128, 64, dtype=dtype, device=DEVICE)
    wrapped = lowtide.wrap(model, x, **SGD)
    for one in (wrapped, plain):
        torch.manual_seed(5)
        one(x).backward()
    assert same([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()])
