"""lowtide.wrap(cuda_graph=True): eager's bits whatever is called between the steps, within the
budget, with a launch for each pass instead of one for each op."""

import gc
import random

import lowtide
import pytest
import torch
from both_devices import bits
from lowtide import _runtime
from lowtide.pytorch import simulated
from lowtide.pytorch.wrap import session_of
from torch import nn
from torch.nn import functional as F

DEVICE = "simulated"

pytestmark = pytest.mark.skipif(not hasattr(torch.accelerator, "Graph"),
                                reason="this PyTorch has no device-independent graphs")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Profiles and plans are shared by the tests of a run, and not with the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Mixed(nn.Module):
    """Convolution, batch norm with statistics, dropout twice."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.drop, self.last = nn.Dropout(0.3), nn.Linear(8, 5)

    def forward(self, x):
        x = self.drop(torch.relu(self.norm(self.first(x))))
        return self.last(self.drop(x.sigmoid().tanh()).mean((2, 3)))

    def input(self, size=8):
        return torch.randn(size, 3, 10, 10)


class Tokens(nn.Module):
    """Indices as inputs, tied weights, several results, attention."""

    def __init__(self):
        super().__init__()
        self.embed, self.mix = nn.Embedding(20, 16), nn.Linear(16, 48)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        heads = self.mix(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + F.dropout(attended.transpose(1, 2).flatten(2), 0.2, self.training)
        return self.head(x), x.mean(1).t()

    def input(self, size=8):
        return torch.randint(20, (size, 6))


class Drawn(nn.Module):
    """Of random layers."""

    def __init__(self, seed):
        super().__init__()
        draw = random.Random(seed)
        make = {"linear": lambda: nn.Linear(32, 32), "norm": lambda: nn.LayerNorm(32),
                "batch": lambda: nn.BatchNorm1d(32), "drop": lambda: nn.Dropout(0.3),
                "gelu": nn.GELU, "tanh": nn.Tanh, "softplus": nn.Softplus}
        self.layers = nn.ModuleList(make[draw.choice(sorted(make))]() for _ in range(8))
        self.skips = [draw.random() < 0.3 for _ in self.layers]
        self.first, self.last = nn.Linear(32, 32), nn.Linear(32, 3)

    def forward(self, x):
        x = self.first(x)
        for layer, skip in zip(self.layers, self.skips):
            x = x + layer(x) if skip else layer(x)
        return self.last(x).square().mean()

    def input(self, size=64):
        return torch.randn(size, 32)


def loss_of(result):
    results = result if isinstance(result, tuple) else (result,)
    return sum(part.square().mean() for part in results)


def built(make, seed=0):
    torch.manual_seed(seed)
    return make().to(DEVICE)


def wrapped_of(make, budget="100%", example=True, **named):
    model = built(make)
    x = model.input().to(DEVICE) if example else None
    return lowtide.wrap(model, x, budget, time_limit=0.3, cuda_graph=True, optimizer="sgd-momentum",
                        **named)


def left_by(model, train, seed=5):
    """The bits of all that ``train`` yields, of the model's state, gradients, the generator's."""
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    values = [value.detach().cpu() for value in train(model, optimizer)]
    values += [p.grad for p in model.parameters() if p.grad is not None]
    values += [*model.state_dict().values(), torch.simulated.get_rng_state()]
    return [bits(value) for value in values]


def assert_as_eager(make, train, budget="100%", **named):
    """Returns the wrapped model after its steps."""
    wanted = left_by(built(make), train)
    wrapped = wrapped_of(make, budget, **named)
    assert left_by(wrapped, train) == wanted
    return wrapped


def executors_of(wrapped):
    return [executor for region in session_of(wrapped).regions for executor in region.executors]


def recordings(wrapped):
    return sum(executor.recordings for executor in executors_of(wrapped))


def steps(model, optimizer, count=5, set_to_none=True, **size):
    for _ in range(count):
        optimizer.zero_grad(set_to_none=set_to_none)
        loss = loss_of(model(model.input(**size).to(DEVICE)))
        loss.backward()
        optimizer.step()
        yield loss


def steps_to_zero(model, optimizer):
    yield from steps(model, optimizer, set_to_none=False)


def accumulating(model, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        for _ in range(2):
            loss = loss_of(model(model.input().to(DEVICE)))
            loss.backward()
            yield loss
        optimizer.step()


def evaluating_between(model, optimizer):
    for _ in range(3):
        yield from steps(model, optimizer, 2)
        model.eval()
        with torch.no_grad():
            yield loss_of(model(model.input().to(DEVICE)))
        model.train()
        with torch.no_grad():
            yield loss_of(model(model.input(4).to(DEVICE)))


def failing_between(model, optimizer):
    for _ in range(3):
        yield from steps(model, optimizer, 1)
        with pytest.raises(ZeroDivisionError):
            loss_of(model(model.input().to(DEVICE))) / (1 // 0)


def twice_backward(model, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        loss = loss_of(model(model.input().to(DEVICE)))
        loss.backward(retain_graph=True)
        loss.backward()
        optimizer.step()
        yield loss


def two_passes_pending(model, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        losses = [loss_of(model(model.input().to(DEVICE))) for _ in range(2)]
        for loss in reversed(losses):
            loss.backward()
        optimizer.step()
        yield from losses


def inputs_with_gradients(model, optimizer):
    for _ in range(3):
        x = model.input().to(DEVICE).requires_grad_()
        optimizer.zero_grad()
        loss_of(model(x)).backward()
        yield x.grad
        optimizer.step()


def results_kept(model, optimizer):
    """What a step returned stays as it was."""
    kept = []
    for _ in range(4):
        optimizer.zero_grad()
        result = model(model.input().to(DEVICE))
        kept.append(result)
        loss_of(result).backward()
        optimizer.step()
    for result in kept:
        yield from result if isinstance(result, tuple) else (result,)


def gradients_kept(model, optimizer):
    kept = []
    for _ in range(3):
        loss = loss_of(model(model.input().to(DEVICE)))
        kept += torch.autograd.grad(loss, list(model.parameters()))
    yield from kept


def other_sizes(model, optimizer):
    for _ in range(3):
        for size in (8, 4):
            yield from steps(model, optimizer, 2, size=size)


def parameters_exchanged(model, optimizer):
    for step in range(6):
        if step % 2:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.data = parameter.data.clone()
        yield from steps(model, optimizer, 1)


def state_assigned(model, optimizer):
    yield from steps(model, optimizer, 3)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    yield from steps(model, optimizer, 1)
    model.load_state_dict(state, assign=True)
    yield from steps(model, torch.optim.SGD(model.parameters(), lr=0.05), 3)


def hooks_on_the_result(model, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        result = model(model.input().to(DEVICE))
        result = result[0] if isinstance(result, tuple) else result
        result.register_hook(lambda gradient: gradient * 2)
        result.square().sum().backward()
        yield result
        optimizer.step()


def expanded_gradients(model, optimizer):
    """The gradients of the results are one number for all elements."""
    for _ in range(4):
        optimizer.zero_grad()
        result = model(model.input().to(DEVICE))
        results = result if isinstance(result, tuple) else (result,)
        loss = sum(0.1 * part.sum() for part in results)
        loss.backward()
        optimizer.step()
        yield loss


def transposed_gradients(model, optimizer):
    for _ in range(4):
        optimizer.zero_grad()
        result = model(model.input().to(DEVICE))
        result = result[0] if isinstance(result, tuple) else result
        factor = torch.randn(result.shape[::-1]).to(DEVICE)
        (result.permute(*reversed(range(result.dim()))) * factor).sum().backward()
        optimizer.step()
        yield result


def usually(cases, usual):
    """The cases, of which those that are not ``usual`` are for long runs of the tests."""
    usual = list(usual)
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)),
                         marks=() if case in usual else pytest.mark.sweep) for case in cases]


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


def launches_of_a_step(wrapped, x):
    wrapped.zero_grad()
    before = simulated.launches()
    result = wrapped(x)
    gradient = torch.ones_like(result)
    result.backward(gradient)
    return simulated.launches() - before


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


def recorded_from_outside(call, stream):
    """A graph of the program's own."""
    graph = torch.accelerator.Graph()
    with torch.simulated.stream(stream):
        graph.capture_begin()
        try:
            call()
        finally:
            graph.capture_end()
    return graph


FROM_OUTSIDE = r"graph of the device is recorded.*wrap\(\.\.\., cuda_graph=True\) records each"


@pytest.mark.filterwarnings("ignore:The graph is empty")
@pytest.mark.parametrize("own, example", [(False, True), (True, True), (False, False)])
def test_passes_are_not_recorded_from_outside(own, example):
    model = built(Mixed)
    x = model.input().to(DEVICE)
    wrapped = lowtide.wrap(model, x if example else None, time_limit=0.3, cuda_graph=own)
    stream = torch.simulated.Stream()
    stream.wait_stream(torch.simulated.current_stream())
    with pytest.raises(lowtide.Error, match=FROM_OUTSIDE):
        recorded_from_outside(lambda: wrapped(x), stream)
    with torch.simulated.stream(stream):
        loss = loss_of(wrapped(x))
    with pytest.raises(lowtide.Error, match=FROM_OUTSIDE):
        recorded_from_outside(loss.backward, stream)


def test_a_call_without_gradients_is_recorded_from_outside():
    wrapped = lowtide.wrap(built(Mixed), built(Mixed).input().to(DEVICE), time_limit=0.3).eval()
    x = wrapped.input().to(DEVICE)
    results = []
    with torch.no_grad():
        wanted = wrapped(x).cpu()
        graph = recorded_from_outside(lambda: results.append(wrapped(x)), torch.simulated.Stream())
        graph.replay()
    assert torch.equal(results[0].cpu(), wanted)


def test_random_ops_never_run_again():
    wrapped = wrapped_of(Mixed, "70%")
    region = session_of(wrapped).regions[0]
    graph, plan = region.priced.graph, session_of(wrapped).plan_for(region)
    runs = [action[1] for action in plan.actions if action[0] == "run"]
    assert len(runs) > len(set(runs))
    assert all(runs.count(op) == 1 for op, made in enumerate(graph.ops) if made.random)


@torch.library.custom_op("lowtide_test::peeks", mutates_args=())
def peeks(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum().item()


@peeks.register_fake
def _(x):
    return torch.empty_like(x)


peeks.register_autograd(lambda context, gradient: gradient * 2)


class Peeking(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(peeks(self.linear(x)))  # the line that is named

    def input(self, size=2):
        return torch.randn(size, 4)


def test_an_op_that_makes_the_host_wait_is_refused_with_its_line():
    """By wrap(); without example inputs in the second step."""
    match = r"(?s)lowtide_test::peeks.*not permitted.*the line that is named.*cuda_graph"
    with pytest.raises(lowtide.Error, match=match):
        wrapped_of(Peeking)
    wrapped = wrapped_of(Peeking, None, example=False)
    passes = steps(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.05))
    next(passes)
    with pytest.raises(lowtide.Error, match=match):
        next(passes)


def test_rows_that_are_scaled_to_a_norm_are_refused():
    """How much memory that takes depends on the indices."""
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = nn.Embedding(30, 16, max_norm=1.0)

        def forward(self, indices):
            return self.rows(indices).sum()

        def input(self, size=8):
            return torch.randint(30, (size,))

    with pytest.raises(lowtide.Error, match="embedding_renorm_, for which the host waits"):
        wrapped_of(Scaled)


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


def test_the_cpu_is_refused():
    model = nn.Linear(4, 4)
    with pytest.raises(lowtide.InputError, match="the CPU .*no graphs"):
        lowtide.wrap(model, torch.ones(2, 4), cuda_graph=True)


def test_inductors_mode_is_refused():
    with pytest.raises(lowtide.InputError, match="mode=\"executor\""):
        lowtide.wrap(built(Mixed), None, cuda_graph=True, mode="inductor")


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
