"""Inductor within a budget: gradients of plain Inductor, executions of the plan, measured peaks."""

import dataclasses
import importlib

import lowtide
import pytest
import torch
from joint_graphs import Chain, again_before_each
from lowtide.pytorch.inductor import Candidate, PlannedPartition, backend, compile_within, fit
from lowtide.pytorch.inductor.compiler import compiler
from lowtide.pytorch.inductor.lower.lowering import lowered
from lowtide.pytorch.inductor.predict.nodes import is_random
from lowtide.pytorch.inductor.split.joint import Joint
from torch import nn
from torch_memory import profiled

pytestmark = pytest.mark.usefixtures("one_thread", "one_compiling_process")


class Image(nn.Module):
    """Batch norm, whose statistics are updated, and dropout, whose numbers come from a seed."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        return self.drop(torch.relu(self.norm(self.first(x)))).sigmoid().mean((2, 3))


def step(run, inputs, seed=0):
    torch.manual_seed(seed)
    run(inputs).square().mean().backward()


def state_after_step(module, run, inputs):
    """Gradients and buffers after one step from the module's state, which is put back."""
    before = {name: value.clone() for name, value in module.state_dict().items()}
    step(run, inputs)
    after = [p.grad.clone() for p in module.parameters()] + [b.clone() for b in module.buffers()]
    module.zero_grad()
    module.load_state_dict(before)
    return after


class Everything(PlannedPartition):
    """Makes what an op reads again just before it: once in the forward, all the way behind it."""

    def __init__(self):
        super().__init__(None)

    def __call__(self, gm, inputs, *, num_fwd_outputs, static_lifetime_input_indices, **_):
        joint = Joint(gm, inputs, num_fwd_outputs, static_lifetime_input_indices)
        planning = joint.kernel_graph(joint.torch_split(1.0))
        halves = joint.split_by(planning.merged, _executions(planning.merged))
        self.ops = [[node.name for node in half.graph.nodes] for half in halves]
        self.products = _products(halves)
        return halves


def _executions(whole):
    behind = again_before_each(whole.joint, whole.num_fwd_outputs, lambda n: not is_random(n))
    boundary = behind.index(None)
    executions = []
    for node in behind[:boundary]:
        executions += [source for source in node.all_input_nodes
                       if source in behind[:boundary] and not is_random(source)]
        executions.append(node)
    return executions + behind[boundary:]


def _products(halves):
    return sum(str(node.target).startswith(("aten.mm", "aten.addmm"))
               for half in halves for node in half.graph.nodes)


def _ran_products(ran):
    return ran.get("aten::mm", 0) + ran.get("aten::addmm", 0)


def with_partition(module, partition):
    return torch.compile(module, backend=compiler(partition), fullgraph=True, dynamic=False)


def test_gradients_and_statistics_are_those_without_recomputation():
    torch.manual_seed(1)
    module, inputs = Image(), torch.randn(4, 2, 8, 8)
    plain = torch.compile(module, fullgraph=True, dynamic=False)
    wanted = state_after_step(module, plain, inputs)
    partition = Everything()
    got = state_after_step(module, with_partition(module, partition), inputs)
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)
    assert any(name.startswith("inductor_random") for name in partition.ops[1])
    assert not any("seeds" in name and "again" in name for half in partition.ops for name in half)


def test_the_compiled_step_runs_what_was_chosen():
    """And what Inductor says of its buffers before it generates code is what they take, but for the
    gradients of two layers, weights and biases, that it may lay elsewhere then."""
    module, inputs = Chain(depth=7), torch.randn(512, 32)
    found, peaks = [], []
    for budget in (None, "85%"):
        partition = PlannedPartition(budget, time_limit=0.5)
        compiled = with_partition(module, partition)
        state_after_step(module, compiled, inputs)
        peak, _, ran = profiled(lambda run=compiled: step(run, inputs))
        module.zero_grad()
        found.append(partition.found)
        peaks.append(peak)
        assert _ran_products(ran) == _products(partition.found.halves)
    assert _products(found[0].halves) < _products(found[1].halves)
    predicted = found[0].expected_bytes - found[1].expected_bytes
    assert predicted > 0 and abs(peaks[0] - peaks[1] - predicted) <= 2 * 4 * (32 * 32 + 32)
    assert found[1].overhead > found[0].overhead == 0


class Fork(nn.Module):
    """One product that several ops read."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        y = self.first(x)
        return self.second(y.tanh()) * y.sin() + self.second(y.exp())


def test_equal_ops_are_not_merged():
    torch.manual_seed(0)
    module, inputs = Fork(), torch.randn(64, 32)
    plain = torch.compile(module, fullgraph=True, dynamic=False)
    wanted = state_after_step(module, plain, inputs)
    partition = Everything()
    compiled = with_partition(module, partition)
    got = state_after_step(module, compiled, inputs)
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)
    (_, _, once), (_, _, often) = (profiled(lambda run=run: step(run, inputs))
                                   for run in (plain, compiled))
    assert any("again" in name for name in partition.ops[0])
    assert _ran_products(often) == partition.products > _ran_products(once) + 3


def measure_for(module, inputs):
    """The peak of a step that finds the model compiled and the gradients unset."""
    def measure(compiled):
        step(compiled, inputs)
        module.zero_grad()
        peak, _, _ = profiled(lambda: step(compiled, inputs))
        module.zero_grad()
        return peak

    return measure


def test_the_budget_is_kept_by_measurement():
    """A measure that counts more than is known, from which the next round learns."""
    module, inputs = Chain(depth=7), torch.randn(512, 32)
    measure, elsewhere, measured = measure_for(module, inputs), 100_000, []

    def counted(compiled):
        measured.append(measure(compiled) + elsewhere)
        return measured[-1]

    everything = compile_within(module, None, counted)
    assert everything.measured_bytes == measured.pop() and everything.choice.overhead == 0
    budget = everything.measured_bytes * 9 // 10
    fitted = compile_within(module, budget, counted, time_limit=0.5)
    assert fitted.measured_bytes in measured and fitted.measured_bytes <= budget
    assert fitted.rounds <= min(len(measured), 4)
    assert fitted.choice.overhead > 0
    assert measure(fitted.model) + elsewhere == fitted.measured_bytes


def test_copies_of_weights_that_the_forward_saves_are_expected():
    """A convolution reads weights with their channels last, and Inductor saves what it made."""
    module = nn.Sequential(*(nn.Conv2d(64, 64, 3, padding=1) for _ in range(3)))
    inputs = torch.randn(2, 64, 8, 8)
    partition = PlannedPartition(None)
    peak = measure_for(module, inputs)(with_partition(module, partition))
    existing = sum(tensor.nbytes for tensor in (*module.parameters(), inputs))
    weights = 2 * module[0].weight.nbytes
    assert partition.found.expected_bytes - existing == pytest.approx(peak, abs=weights // 4)


class Near(PlannedPartition):
    """PyTorch's own split, compiled as Lowtide's plans are."""

    def __call__(self, *given, **named):
        halves = super().__call__(*given, **named)
        self.found = dataclasses.replace(self.found, near=True)
        return halves


def test_plans_save_weights_and_no_copies_of_them():
    torch.manual_seed(0)
    module = nn.Sequential(*(nn.Conv2d(64, 64, 3, padding=1) for _ in range(3)))
    inputs, peaks, after = torch.randn(2, 64, 8, 8), [], []
    for partition in (PlannedPartition(None), Near(None)):
        compiled = with_partition(module, partition)
        after.append(state_after_step(module, compiled, inputs))
        peaks.append(measure_for(module, inputs)(compiled))
    assert lowered(partition.found.halves, near=True).copied_bytes == 0
    assert lowered(partition.found.halves).copied_bytes >= module[0].weight.nbytes
    assert peaks[1] <= peaks[0] - module[0].weight.nbytes
    for ours, theirs in zip(*after, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


class Clock:
    """Steps of two models, each of its own time and bytes."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(fit.time, "perf_counter", lambda: self.now)

    def measure(self, model):
        seconds, measured_bytes = model
        self.now += seconds
        return measured_bytes


def fitted_for(seconds, measured_bytes):
    choice = Candidate("a split", (), measured_bytes, 0.0, budget_bytes=100)
    return fit.Fitted((seconds, measured_bytes), measured_bytes, choice, 1, joint=None)


@pytest.mark.parametrize("seconds, theirs, wins", [(1.0, 90, True), (3.0, 90, False),
                                                   (1.0, 101, False)])
def test_the_faster_of_two_that_fit_is_kept(monkeypatch, seconds, theirs, wins):
    clock = Clock(monkeypatch)
    ours, rival = fitted_for(2.0, 80), fitted_for(seconds, theirs)
    assert fit.faster(ours, rival, clock.measure) is (rival if wins else ours)


def test_what_cannot_be_kept_is_refused_with_what_was_measured():
    """The measure counts more than what is known, again and again."""
    module, inputs = Chain(), torch.randn(64, 32)
    figure = 123_456_789
    with pytest.raises(lowtide.InfeasibleError, match=f"measured takes {figure}.*1000000"):
        compile_within(module, 1_000_000, lambda compiled: step(compiled, inputs) or figure,
                       time_limit=0.5, rounds=1)


def test_what_is_far_above_the_budget_is_refused_before_it_is_compiled(monkeypatch):
    """With the smallest that is expected."""
    monkeypatch.setattr(importlib.import_module("lowtide.pytorch.inductor.compiler"),
                        "compile_fx_inner", None)
    module, inputs = Chain(), torch.randn(64, 32)
    with pytest.raises(lowtide.InfeasibleError, match="expected takes [0-9]+ .*10000 "):
        compile_within(module, 10_000, lambda compiled: step(compiled, inputs) or 0,
                       time_limit=0.5)


def test_ctrl_c_keeps_what_holds_the_budget(monkeypatch):
    """In the second round, which looks for something faster."""
    monkeypatch.setattr(fit, "LITTLE", -1.0)
    module, inputs = Chain(depth=7), torch.randn(512, 32)
    measure, rounds = measure_for(module, inputs), []

    def stopped(compiled):
        rounds.append(compiled)
        if len(rounds) == 2:
            raise KeyboardInterrupt
        return measure(compiled) // 2

    everything = measure(torch.compile(module, fullgraph=True, dynamic=False))
    fitted = compile_within(module, everything * 9 // 10, stopped, time_limit=0.5)
    assert len(rounds) == 2 and fitted.model is rounds[0]
    with pytest.raises(KeyboardInterrupt):
        compile_within(module, everything * 9 // 10, stopped_at_once, time_limit=0.5)


def stopped_at_once(_):
    raise KeyboardInterrupt


def test_a_measure_without_a_step_is_refused():
    with pytest.raises(lowtide.InputError, match="forward and backward"):
        compile_within(Chain(), 10**9, lambda compiled: 1)


def test_a_backend_refuses_a_budget_that_no_plan_keeps():
    compiled = torch.compile(Chain(), backend=backend(1000, time_limit=0.5), dynamic=False)
    with pytest.raises(lowtide.InfeasibleError):
        step(compiled, torch.randn(64, 32))


def test_dynamic_shapes_are_refused():
    compiled = torch.compile(Chain(), backend=backend("100%"), dynamic=True)
    with pytest.raises(lowtide.InputError, match="dynamic=False"):
        step(compiled, torch.randn(64, 32))
