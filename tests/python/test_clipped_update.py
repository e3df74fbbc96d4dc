"""Clipping by the norm of all gradients, within a backward pass that updates the parameters: the
bits of torch.nn.utils.clip_grad_norm_ and a step, without all gradients."""

import copy
import itertools
import math
import random

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from on_device import DEVICE
from sweep import sweep
from torch import nn
from update_cases import MODELS, OPTIMIZERS, Layers, counted_bytes, layers_of, needed_bytes, trained
from wrap_cases import InThreeGraphs, built, same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

INFINITY = math.inf


def wrapped(model, optimizer, budget=None, x=None, max_norm=0.01, norm_type=2.0,
            error_if_nonfinite=False, **options):
    how = lowtide.FusedUpdate(max_norm, norm_type, error_if_nonfinite)
    return lowtide.wrap(model, x, budget, optimizer=optimizer, fused_update=how,
                        **{"time_limit": 0.3, **options})


def least_bytes(model, optimizer, x, norm_type=2.0, **options):
    return needed_bytes(model, optimizer, x,
                        fused_update=lowtide.FusedUpdate(0.01, norm_type), **options)


def clipped(model, optimizer, inputs_of, max_norm=0.01, norm_type=2.0, steps=3):
    """The plain loop, and the norms in it."""
    norms = []
    found = trained(model, optimizer, inputs_of, steps, lambda: norms.append(
        nn.utils.clip_grad_norm_(model.parameters(), max_norm, norm_type).item()))
    return found, norms


def planned_and_norms(planned, optimizer, inputs_of, steps=3):
    norms = []
    found = trained(planned, optimizer, inputs_of, steps,
                    lambda: norms.append(planned.gradient_norm))
    return found, norms


def require_equal(planned, optimizer, plain, plain_optimizer, inputs_of, **clip):
    found, norms = planned_and_norms(planned, optimizer, inputs_of)
    expected, their_norms = clipped(plain, plain_optimizer, inputs_of, **clip)
    assert norms == their_norms
    assert same(found, expected)


#: Of a budget without a byte to spare, for the loss, which is none of the model's.
OUTSIDE = pytest.mark.filterwarnings("ignore:other code of this process took")


@OUTSIDE
@pytest.mark.parametrize("case, kind, norm_type, is_small", sweep(
    itertools.product(MODELS, OPTIMIZERS, [2.0, INFINITY], [False, True]),
    [("convolutions", "momentum", 2.0, True), ("tied", "adam", INFINITY, True),
     ("twice", "rmsprop", 2.0, False), ("autocast", "fused adamw", 2.0, True),
     ("deep", "amsgrad of all at once", INFINITY, False)]))
def test_training_has_the_bits_of_a_plain_loop(case, kind, norm_type, is_small):
    make, inputs_of = MODELS[case]
    model = built(make).to(DEVICE)
    plain = copy.deepcopy(model)
    optimizer, x = OPTIMIZERS[kind](model.parameters()), inputs_of().to(DEVICE)
    budget = least_bytes(model, optimizer, x, norm_type) if is_small else None
    planned = wrapped(model, optimizer, budget, x, norm_type=norm_type)
    require_equal(planned, optimizer, plain, OPTIMIZERS[kind](plain.parameters()), inputs_of,
                  norm_type=norm_type)
    assert not is_small or planned.memory.planned_peak <= planned.memory.budget


class Odd(nn.Module):
    """A chain of parts that meet gradients of each kind: of one storage, in another layout, of no
    element, of an op of the forward pass, of none."""

    def __init__(self, draw, width=8):
        super().__init__()
        self.unused = nn.Parameter(torch.ones(3))
        self.empty = nn.Parameter(torch.zeros(0, 3))
        self.frozen = nn.Parameter(torch.ones(width), requires_grad=False)
        parts = {"linear": lambda: nn.Linear(width, width),
                 "transposed": lambda: _transposed(nn.Linear(width, width, bias=False)),
                 "two biases": lambda: TwoBiases(width),
                 "norm": lambda: nn.LayerNorm(width),
                 "tanh": nn.Tanh,
                 "scale": lambda: Scaled(width),
                 "convolution": lambda: Convolved(width)}
        self.parts = nn.Sequential(*(parts[name]() for name in draw.choices(sorted(parts), k=7)))
        self.last = nn.Parameter(torch.ones(width))  # its gradient is a constant

    def forward(self, x):
        y = self.parts(x) * self.frozen
        return y.square().mean() + self.last.sum() + self.empty.sum()


class TwoBiases(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = (nn.Parameter(torch.zeros(width)) for _ in range(2))

    def forward(self, x):
        return x + (self.first + self.second)


class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(width, dtype=torch.float64))

    def forward(self, x):
        return x * self.factor.to(x.dtype)


class Convolved(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Conv2d(2, 2, 3, padding=1).to(memory_format=torch.channels_last)

    def forward(self, x):
        return self.inner(x.view(len(x), 2, 2, -1)).flatten(1)


def _transposed(linear):
    linear.weight = nn.Parameter(linear.weight.detach().t().contiguous().t())
    return linear


@OUTSIDE
@pytest.mark.parametrize("seed", sweep(range(40), range(4)))
def test_random_models_have_the_bits_of_a_plain_loop(seed):
    draw = random.Random(seed)
    model = built(lambda: Odd(draw), seed).to(DEVICE)
    plain = copy.deepcopy(model)
    make = OPTIMIZERS[draw.choice(["sgd", "momentum", "adam", "adagrad"])]
    max_norm = draw.choice([1e-3, 0.5, 1e3])
    optimizer, x = make(model.parameters()), torch.randn(5, 8, device=DEVICE)
    budget = draw.choice([None, least_bytes(model, optimizer, x) * 11 // 10])
    planned = wrapped(model, optimizer, budget, x, max_norm)
    require_equal(planned, optimizer, plain, make(plain.parameters()),
                  lambda: torch.randn(5, 8), max_norm=max_norm)


def runs_of_gradients_again(planned):
    """How often ops run again whose results are gradients."""
    region, = session_of(planned).regions
    runs = [action[1] for action in session_of(planned).plan_for(region).actions
            if action[0] == "run"]
    ops = region.priced.graph.ops
    made = {op.inputs[0] for op in ops if op.type == "lowtide::gradient_norm"}
    makers = {number for number, op in enumerate(ops) if made.intersection(op.outputs)}
    return sum(runs.count(number) - 1 for number in makers)


def test_gradients_are_held_or_made_again():
    """Where there is room they are held, and where there is none they never exist all at once."""
    model, optimizer, x = layers_of(lambda p: torch.optim.AdamW(p, fused=True))
    gradients = sum(parameter.nbytes for parameter in model.parameters())
    largest = max(parameter.nbytes for parameter in model.parameters())
    least = least_bytes(model, optimizer, x)
    assert needed_bytes(model, optimizer, x) - least > gradients - 2 * largest
    roomy = wrapped(model, optimizer, None, x)
    assert runs_of_gradients_again(roomy) == 0
    tight = wrapped(model, optimizer, least, x)
    assert runs_of_gradients_again(tight) > 0


@pytest.mark.cpu_only("the profiler counts what the CPU's allocator hands out")
@pytest.mark.parametrize("kind", ["momentum", "fused adamw"])
def test_a_whole_step_is_within_the_budget(kind):
    model, optimizer, x = layers_of(OPTIMIZERS[kind])
    budget = least_bytes(model, optimizer, x)
    planned = wrapped(model, optimizer, budget, x)
    assert counted_bytes(planned, optimizer, x) <= budget


@pytest.mark.parametrize("options", [dict(slices=2), dict(precision="bf16")], ids=str)
def test_with_other_ways_to_need_less(options):
    """Beside the wrapped model that clips in a plain loop: slices round otherwise."""
    model, optimizer, x = layers_of(torch.optim.AdamW)
    plain = copy.deepcopy(model)
    others = torch.optim.AdamW(plain.parameters())
    beside = lowtide.wrap(plain, x, optimizer=others, time_limit=0.3, **options)
    require_equal(wrapped(model, optimizer, None, x, **options), optimizer, beside, others,
                  lambda: torch.randn(4, 128))


def test_the_norm_is_there_after_the_backward_pass():
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned = wrapped(model, optimizer, None, x)
    assert planned.gradient_norm is None
    planned(x).backward()
    norm = planned.gradient_norm
    assert norm > 0 and norm == lowtide.gradient_norm(planned)
    optimizer.step()
    assert norm == planned.gradient_norm
    planned(x).backward()
    assert norm != planned.gradient_norm


@pytest.mark.parametrize("fused_update", [False, True, lowtide.FusedUpdate()])
def test_without_clipping_there_is_no_norm(fused_update):
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned = lowtide.wrap(model, x, optimizer=optimizer, fused_update=fused_update)
    assert not hasattr(planned, "gradient_norm")
    with pytest.raises(lowtide.InputError, match="FusedUpdate"):
        lowtide.gradient_norm(planned)
    with pytest.raises(lowtide.InputError, match="not wrapped"):
        lowtide.gradient_norm(model)


def test_a_model_with_a_gradient_norm_of_its_own_keeps_it():
    class Own(Layers):
        gradient_norm = "mine"

    model = built(Own).to(DEVICE)
    optimizer, x = torch.optim.Adam(model.parameters()), torch.randn(4, 128, device=DEVICE)
    planned = wrapped(model, optimizer, None, x)
    planned(x).backward()
    assert planned.gradient_norm == "mine"
    assert lowtide.gradient_norm(planned) > 0


class Poisoned(Layers):
    def forward(self, x):
        return super().forward(x) / x.new_zeros(())


def test_a_norm_that_is_not_finite_is_an_error_before_any_update_if_so_wanted():
    model = built(Poisoned).to(DEVICE)
    optimizer, x = torch.optim.SGD(model.parameters(), 0.1), torch.randn(4, 128, device=DEVICE)
    before = copy.deepcopy(model)
    planned = wrapped(model, optimizer, None, x, error_if_nonfinite=True)
    with pytest.raises(lowtide.Error, match="cannot be clipped"):
        planned(x).backward()
    assert same(list(model.parameters()), list(before.parameters()))
    assert not math.isfinite(planned.gradient_norm)
    tolerant = wrapped(model, optimizer, None, x)
    tolerant(x).backward()
    optimizer.step()
    assert not torch.isfinite(next(model.parameters())).all()  # as clip_grad_norm_ leaves it


def test_gradients_from_outside_of_the_graph_are_an_error_before_any_update():
    model, optimizer, x = layers_of(torch.optim.Adam)
    model.scale = nn.Parameter(torch.ones((), device=DEVICE))
    optimizer.add_param_group({"params": [model.scale]})
    before = copy.deepcopy(model)
    planned = wrapped(model, optimizer, None, x)
    with pytest.raises(lowtide.Error, match="outside of the graph"):
        (planned(x) * model.scale).backward()
    assert same(list(model.parameters()), list(before.parameters()))
    optimizer.zero_grad()
    planned(x).backward()  # without it all gradients are the graph's
    optimizer.step()


def test_graphs_behind_breaks_are_an_error_before_any_update():
    model = built(lambda: InThreeGraphs(lambda: nn.Linear(16, 16))).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    before = copy.deepcopy(model)
    planned = wrapped(model, optimizer)
    with pytest.raises(lowtide.Error, match="remove graph breaks"):
        planned(torch.randn(4, 16, device=DEVICE)).sum().backward()
    assert same(list(model.parameters()), list(before.parameters()))


def test_a_gradient_from_before_is_an_error_before_any_update():
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned = wrapped(model, optimizer, None, x)
    model.layers[-2].weight.grad = torch.zeros_like(model.layers[-2].weight)
    before = copy.deepcopy(list(model.parameters()))
    with pytest.raises(lowtide.Error, match="zero_grad"):
        planned(x).backward()
    assert same(list(model.parameters()), before)


def test_a_second_backward_pass_before_the_step_updates_nothing():
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned = wrapped(model, optimizer, None, x)
    planned(x).backward()
    before = copy.deepcopy([parameter.detach() for parameter in model.parameters()])
    with pytest.raises(lowtide.Error, match="after each backward"):
        planned(x).backward()
    assert same(list(model.parameters()), before)


def test_a_pass_for_some_parameters_clips_by_those():
    model, optimizer, x = layers_of(torch.optim.Adam)
    plain = copy.deepcopy(model)
    others = torch.optim.Adam(plain.parameters())
    planned = wrapped(model, optimizer, None, x)
    chosen = [3, 2]
    for run, one, stepped in ((planned, model, optimizer), (plain, plain, others)):
        parameters = list(one.parameters())
        run(x).backward(inputs=[parameters[index] for index in chosen])
        if run is plain:
            norm = nn.utils.clip_grad_norm_(plain.parameters(), 0.01)
        stepped.step()
    assert planned.gradient_norm == norm.item()
    assert same(list(model.parameters()), list(plain.parameters()))


def test_gradients_of_inputs_alone_update_nothing():
    model, optimizer, x = layers_of(torch.optim.Adam)
    planned, before = wrapped(model, optimizer, None, x), copy.deepcopy(model)
    x.requires_grad_()
    found, wanted = (torch.autograd.grad(run(x), x)[0] for run in (planned, before))
    assert torch.equal(found, wanted)
    assert same(list(model.parameters()), list(before.parameters()))
    assert planned.gradient_norm is None


def test_a_smaller_budget_between_the_passes_runs_the_forward_pass_again():
    model, optimizer, x = layers_of(torch.optim.Adam)
    plain = copy.deepcopy(model)
    others = torch.optim.Adam(plain.parameters())
    least = least_bytes(model, optimizer, x) + 4096
    planned = wrapped(model, optimizer, 2 * least, x)
    for _ in range(3):
        loss = planned(x)
        planned.budget = least
        loss.backward()
        optimizer.step()
        planned.budget = 2 * least
        plain(x).backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 0.01)
        others.step()
        others.zero_grad()
    assert same(list(model.parameters()), list(plain.parameters()))


def test_a_model_of_torch_compile_clips_by_the_optimizers_parameters():
    model, optimizer, x = layers_of(torch.optim.Adam)
    plain = copy.deepcopy(model)
    others = torch.optim.Adam(plain.parameters())
    compiled = torch.compile(model, backend="lowtide", options={
        "optimizer": optimizer, "fused_update": lowtide.FusedUpdate(0.01), "time_limit": 0.3})
    compiled(x).backward()
    optimizer.step()
    plain(x).backward()
    nn.utils.clip_grad_norm_(plain.parameters(), 0.01)
    others.step()
    assert same(list(model.parameters()), list(plain.parameters()))


@pytest.mark.parametrize("arguments, reason", [
    (dict(max_norm=0), "above 0"), (dict(max_norm=math.nan), "above 0"),
    (dict(max_norm="1"), "above 0"), (dict(max_norm=True), "above 0"),
    (dict(max_norm=1, norm_type=1), "2 or math.inf"),
    (dict(max_norm=1, norm_type="inf"), "2 or math.inf"),
    (dict(max_norm=1, error_if_nonfinite=1), "True or False"),
    (dict(norm_type=INFINITY), "give max_norm"), (dict(error_if_nonfinite=True), "give max_norm"),
])
def test_what_is_no_clipping_is_refused(arguments, reason):
    with pytest.raises(lowtide.InputError, match=reason):
        lowtide.FusedUpdate(**arguments)


@pytest.mark.parametrize("given", ["yes", 1, 1.0])
def test_what_is_no_way_to_update_is_refused(given):
    model, optimizer, x = layers_of(torch.optim.Adam)
    with pytest.raises(lowtide.InputError, match="FusedUpdate"):
        lowtide.wrap(model, x, optimizer=optimizer, fused_update=given)
