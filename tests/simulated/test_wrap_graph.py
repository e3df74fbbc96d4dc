"""lowtide.wrap(cuda_graph=True): eager's bits whatever is called between the steps, within the
budget, with a launch for each pass instead of one for each op."""

import gc

import lowtide
import pytest
import torch
from graph_cases import (
    DEVICE,
    Drawn,
    Mixed,
    Peeking,
    Tokens,
    accumulating,
    assert_as_eager,
    built,
    evaluating_between,
    expanded_gradients,
    failing_between,
    gradients_kept,
    hooks_on_the_result,
    inputs_with_gradients,
    launches_of_a_step,
    left_by,
    other_sizes,
    parameters_exchanged,
    recordings,
    results_kept,
    state_assigned,
    steps,
    steps_to_zero,
    transposed_gradients,
    twice_backward,
    two_passes_pending,
    usually,
    wrapped_of,
)
from lowtide import _runtime
from lowtide.pytorch import simulated
from lowtide.pytorch.wrap import session_of
from torch import nn

pytestmark = [pytest.mark.usefixtures("own_cache"),
              pytest.mark.skipif(not hasattr(torch.accelerator, "Graph"),
                                 reason="this PyTorch has no device-independent graphs")]


SITUATIONS = [steps, steps_to_zero, accumulating, evaluating_between, failing_between,
              twice_backward, two_passes_pending, results_kept, gradients_kept, other_sizes,
              parameters_exchanged, state_assigned, hooks_on_the_result, expanded_gradients]


@pytest.mark.parametrize("make, train", usually(
    [(make, train) for make in (Mixed, Tokens) for train in SITUATIONS],
    [(Mixed, train) for train in SITUATIONS] + [(Tokens, steps), (Tokens, results_kept)]),
    ids=lambda case: case.__name__)
def test_training_is_eagers_to_the_bit(make, train):
    assert_as_eager(make, train, budget=None if "two_passes" in train.__name__ else "100%")


@pytest.mark.parametrize("train", [inputs_with_gradients, transposed_gradients])
def test_training_is_that_without_recordings(train):
    """Gradients of results in another layout are brought into theirs, with and without."""
    model = built(Mixed)
    wrapped = lowtide.wrap(model, model.input().to(DEVICE), "100%", time_limit=0.3,
                           optimizer="sgd-momentum")
    wanted = left_by(wrapped, train)
    assert left_by(wrapped_of(Mixed), train) == wanted


@pytest.mark.parametrize("budget", usually(["100%", "80%", None], ["80%"]))
@pytest.mark.parametrize("seed", usually(range(12), range(3)))
def test_random_models_and_budgets(seed, budget):
    wrapped = assert_as_eager(lambda: Drawn(seed), steps, budget)
    if budget:
        assert 0 < wrapped.memory.measured_peak <= wrapped.memory.budget


@pytest.mark.parametrize("seed", usually(range(8), range(2)))
def test_no_order_of_late_streams_changes_a_bit(seed):
    simulated.reseed(seed)
    assert_as_eager(Mixed, steps, "90%")


class Parts(nn.Module):
    """Results that share one storage, in which they begin at different places."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6, dtype=torch.complex64))

    def forward(self, x):
        x = torch.tanh((x + 0.5j * x) @ self.weight.mH)
        return x.real, x.conj().imag, x.abs()

    def input(self, size=8):
        return torch.randn(size, 6)


def test_results_that_share_memory_are_copied_whole():
    assert_as_eager(Parts, steps, None)


def test_without_example_inputs_the_first_steps_run_op_by_op():
    wrapped = assert_as_eager(Mixed, steps, example=False)
    assert recordings(wrapped) == 2


def test_nothing_is_recorded_again_while_addresses_stay():
    wrapped = wrapped_of(Mixed)
    assert recordings(wrapped) == 2  # by wrap() itself
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.05)
    list(steps(wrapped, optimizer, 3))
    before = recordings(wrapped)
    list(steps(wrapped, optimizer, 6))
    assert recordings(wrapped) == before <= 4
    with torch.no_grad():
        for parameter in wrapped.parameters():
            parameter.data = parameter.data.clone()
    list(steps(wrapped, optimizer, 3))
    assert recordings(wrapped) == before + 2


def test_a_pass_is_one_launch():
    """And one for each input, result and gradient that is copied."""
    counts = {}
    for as_graph in (False, True):
        model = built(Mixed)
        x = model.input().to(DEVICE)
        wrapped = lowtide.wrap(model, x, "100%", time_limit=0.3, optimizer="sgd-momentum",
                               cuda_graph=as_graph)
        counts[as_graph] = [launches_of_a_step(wrapped, x) for _ in range(4)][-1]
        ops = len(session_of(wrapped).regions[0].priced.graph.ops)
    assert counts[False] >= ops / 2
    assert counts[True] <= 8 < counts[False]


@pytest.mark.parametrize("budget", ["100%", "85%"])
def test_the_devices_own_counters_see_no_more_than_planned(budget):
    wrapped = wrapped_of(Mixed, budget)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.05)
    list(steps(wrapped, optimizer, 4))
    optimizer.zero_grad()
    gc.collect()
    x = wrapped.input().to(DEVICE)
    session_of(wrapped).release()
    before = torch.simulated.memory_stats()["requested_bytes.all.current"]
    torch.simulated.reset_peak_memory_stats()
    wrapped(x).sum().backward()
    above = torch.simulated.memory_stats()["requested_bytes.all.peak"] - before
    assert 0 < above <= wrapped.memory.planned_peak - wrapped.memory.existing
    assert wrapped.memory.measured_peak <= wrapped.memory.budget


def test_random_ops_never_run_again():
    wrapped = wrapped_of(Mixed, "70%")
    region = session_of(wrapped).regions[0]
    graph, plan = region.priced.graph, session_of(wrapped).plan_for(region)
    runs = [action[1] for action in plan.actions if action[0] == "run"]
    assert len(runs) > len(set(runs))
    assert all(runs.count(op) == 1 for op, made in enumerate(graph.ops) if made.random)


def test_gradients_with_gaps_write_nothing_beyond_their_places():
    """The gradient of rows of a result has their strides."""
    class FirstRows(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 16)

        def forward(self, x):
            return self.linear(x)[:, 0]

    wrapped = lowtide.wrap(FirstRows().to(DEVICE), None, "100%", time_limit=0.3, cuda_graph=True)
    for _ in range(3):
        result = wrapped(torch.ones(6, 20, 8, device=DEVICE))
        neighbours = [torch.zeros(128, device=DEVICE) for _ in range(60)]
        result.sum().backward()
        assert not any(torch.stack(neighbours).cpu().flatten().tolist())
        assert torch.equal(wrapped.linear.bias.grad.cpu(), torch.full((16,), 6.0))
        wrapped.zero_grad()


@pytest.mark.parametrize("budget", ["100%", "90%"])
def test_indices_hold_when_the_backward_pass_is_recorded(budget):
    """Kernels look at them, and the backward pass writes over what it has read."""
    class Best(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x):
            return self.linear(x).softmax(-1).max(-1).values.sum()

        def input(self, size=500):
            return torch.randn(size, 4)

    assert recordings(assert_as_eager(Best, steps, budget)) >= 2


@torch.library.custom_op("lowtide_test::doubles", mutates_args=(), device_types="cpu")
def doubles(x: torch.Tensor) -> torch.Tensor:
    """Asks for the same scratch memory twice, and leaves it as it was."""
    first = torch.empty(1 << 12)
    before = first.clone()
    first.fill_(7)
    del first
    again = torch.empty(1 << 12).copy_(before)
    doubled = x * 2
    del again
    return doubled


doubles.register_fake(torch.empty_like)
doubles.register_autograd(lambda context, gradient: doubles(gradient))


def test_scratch_that_serves_twice_leaves_what_the_pass_reads():
    class Doubled(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x):
            x = doubles(self.first(x))
            for _ in range(6):
                x = x.tanh().sigmoid()
            return self.last(x)

        def input(self, size=64):
            return torch.randn(size, 16)

    assert_as_eager(Doubled, steps, example=False)


class PythonsGraph:
    """With the methods of torch.cuda.CUDAGraph."""

    replays = 0

    def capture_begin(self, pool=None, capture_error_mode="global"):
        self.graph = torch.accelerator.Graph(pool=pool, capture_error_mode=capture_error_mode)
        self.graph.capture_begin()

    def capture_end(self):
        self.graph.capture_end()

    def replay(self):
        PythonsGraph.replays += 1
        self.graph.replay()


def test_graphs_of_python_are_used_where_they_are_added():
    """As CUDA's are, which PyTorch's interface for all devices does not have."""
    _runtime.add_graphs(DEVICE, PythonsGraph)  # for the rest of the process
    assert_as_eager(Mixed, steps)
    assert PythonsGraph.replays >= 6
    match = r"(?s)lowtide_test::peeks.*not permitted.*the line that is named"
    with pytest.raises(lowtide.Error, match=match):
        wrapped_of(Peeking)


def test_a_break_in_the_graph_gives_two_recordings_each():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)

        def forward(self, x):
            x = torch.tanh(self.first(x))
            if x.sum().item() > 1e9:  # of the host, between the two
                return x
            return self.second(x).square()

        def input(self, size=8):
            return torch.randn(size, 32)

    wrapped = assert_as_eager(Broken, steps, None)
    assert len(session_of(wrapped).regions) >= 2
    assert recordings(wrapped) >= 4


def test_empty_batches_are_recorded():
    model = nn.Linear(16, 4).to(DEVICE)
    wrapped = lowtide.wrap(model, torch.randn(0, 16, device=DEVICE), "100%", cuda_graph=True,
                           time_limit=0.3)
    for rows in (0, 3, 0, 3):
        wrapped.zero_grad()
        wrapped(torch.ones(rows, 16, device=DEVICE)).sum().backward()
        assert torch.equal(wrapped.weight.grad.cpu(), torch.full((4, 16), float(rows)))
    wrapped.zero_grad()
