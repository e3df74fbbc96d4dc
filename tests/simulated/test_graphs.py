"""Graphs of the device, by torch.accelerator.Graph: recorded once, replayed with the bits that the
same work gives without one, and refused where a GPU refuses."""

import gc
import threading

import pytest
import torch
from both_devices import bits
from lowtide.pytorch import simulated
from torch.nn import functional as F

DEVICE = "simulated"
SEEDS = range(4)

pytestmark = pytest.mark.skipif(not hasattr(torch.accelerator, "Graph"),
                                reason="this PyTorch has no device-independent graphs")


@pytest.fixture(params=SEEDS)
def order(request):
    """Orders of late work."""
    simulated.reseed(request.param)


def captured(work, **options):
    """A graph of ``work``, which ran once before, on a stream of its own; and what it returned."""
    side = torch.Stream(DEVICE)
    side.wait_stream(torch.accelerator.current_stream())
    graph = torch.accelerator.Graph(**options)
    with side:
        work()
        with graph:
            result = work()
    torch.accelerator.current_stream().wait_stream(side)
    return graph, result


def refused(work, match, **options):
    """The capture of ``work`` raises, and so does its end; the device works on."""
    stream, graph = torch.Stream(DEVICE), torch.accelerator.Graph(**options)
    with stream:
        graph.capture_begin()
        with pytest.raises(RuntimeError, match=match):
            work()
        with pytest.raises(RuntimeError, match="due to a previous error during capture"):
            graph.capture_end()
        with pytest.raises(RuntimeError, match="without a preceding"):
            graph.replay()
    assert torch.ones(2, device=DEVICE).sum().item() == 2


def on_device(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def test_a_capture_records_and_does_nothing():
    x = on_device(8)
    before = bits(x)
    graph, _ = captured(lambda: x.add_(1).mul_(2))
    warm = (torch.tensor(0.0) + x.cpu())  # the run before the capture was real
    assert bits(x) != before
    graph.replay()
    assert torch.equal(x.cpu(), (warm + 1) * 2)


def test_a_capture_puts_back_what_schemas_do_not_mark_as_written():
    """native_batch_norm writes the running statistics."""
    x, mean, variance = on_device(4, 3), torch.zeros(3, device=DEVICE), torch.ones(3, device=DEVICE)

    def work():
        return torch.native_batch_norm(x, None, None, mean, variance, True, 0.1, 1e-5)

    graph, _ = captured(work)
    once = bits(mean), bits(variance)  # of the run before the capture
    mean.zero_(), variance.fill_(1)
    work()
    assert (bits(mean), bits(variance)) == once
    mean.zero_(), variance.fill_(1)
    graph.replay()
    assert (bits(mean), bits(variance)) == once


@pytest.mark.usefixtures("order")
def test_replays_give_eagers_bits():
    weight, static = on_device(16, 16, seed=1), on_device(4, 16)

    def work():
        hidden = F.gelu(static @ weight)
        hidden = F.layer_norm(hidden, (16,)).softmax(-1)
        return torch.cat([hidden, hidden.flip(0)]).std(0), hidden.argmax(-1)

    graph, results = captured(work)
    for seed in range(5):
        static.copy_(on_device(4, 16, seed=10 + seed))
        graph.replay()
        wanted = work()
        assert [bits(a) for a in results] == [bits(b) for b in wanted]


@pytest.mark.usefixtures("order")
def test_random_numbers_of_a_replay_are_those_of_an_eager_call():
    static = on_device(64)

    def work():
        drawn = F.dropout(static, 0.4)
        return drawn + torch.randn(64, device=DEVICE) + torch.empty_like(static).exponential_()

    torch.manual_seed(3)
    graph, result = captured(work)
    after_capture = torch.simulated.get_rng_state()
    torch.manual_seed(5)
    found = []
    for _ in range(3):
        graph.replay()
        found.append(bits(result))
        found.append(bits(torch.rand(3, device=DEVICE)))
    torch.manual_seed(5)
    wanted = []
    for _ in range(3):
        wanted.append(bits(work()))
        wanted.append(bits(torch.rand(3, device=DEVICE)))
    assert found == wanted
    torch.manual_seed(3)
    work()
    assert torch.equal(after_capture, torch.simulated.get_rng_state())


def test_a_generator_of_its_own_is_drawn_from_by_each_replay():
    def drawn(generator):
        return torch.randn(8, device=DEVICE, generator=generator)

    ours, other = (torch.Generator(DEVICE).manual_seed(9) for _ in range(2))
    graph, result = captured(lambda: drawn(ours))
    assert bits(drawn(other)) is not None  # the run before the capture
    for _ in range(3):
        graph.replay()
        assert bits(result) == bits(drawn(other))


def test_gradients_are_captured_on_autograds_threads():
    weight = on_device(8, 8).requires_grad_()
    static = on_device(4, 8, seed=1)
    weight.grad = torch.zeros_like(weight)

    def work():
        (static @ weight).tanh().sum().backward()

    graph, _ = captured(work)
    for seed in range(3):
        static.copy_(on_device(4, 8, seed=seed + 2))
        weight.grad.zero_()
        graph.replay()
        wanted = torch.autograd.grad((static @ weight).tanh().sum(), weight)[0]
        assert bits(weight.grad) == bits(wanted)


@pytest.mark.usefixtures("order")
def test_another_stream_sees_a_replay_only_after_a_wait():
    x = torch.zeros(1 << 10, device=DEVICE)
    graph, _ = captured(lambda: x.add_(1))
    x.zero_()
    torch.accelerator.synchronize()
    other, seen = torch.Stream(DEVICE), []
    for step in range(8):
        graph.replay()
        done = torch.accelerator.current_stream().record_event()
        with other:
            early = x.clone()
            other.wait_event(done)
            seen.append((early[0].item(), x[0].item()))
        assert seen[-1][1] == step + 1
        torch.accelerator.synchronize()
    assert all(early <= late for early, late in seen)


def test_replays_are_late():
    """Over some orders, another stream that does not wait finds the bytes of before."""
    early = 0
    x = torch.zeros(64, device=DEVICE)
    graph, _ = captured(lambda: x.fill_(1))
    other = torch.Stream(DEVICE)
    for seed in range(20):
        simulated.reseed(seed)
        x.zero_()
        torch.accelerator.synchronize()
        graph.replay()
        with other:
            early += x.clone()[0].item() == 0
        torch.accelerator.synchronize()
    assert early > 0


def test_one_replay_is_one_launch():
    x = on_device(16)
    graph, _ = captured(lambda: [x.mul_(0.5) for _ in range(10)])
    before = simulated.launches()
    graph.replay()
    assert simulated.launches() == before + 1
    x.mul_(2)
    assert simulated.launches() == before + 2


def test_copies_from_pinned_memory_read_it_in_each_replay():
    source, x = torch.zeros(4).pin_memory(), torch.zeros(4, device=DEVICE)
    target = torch.zeros(4).pin_memory()

    def work():
        x.copy_(source, non_blocking=True)
        target.copy_(x * 2, non_blocking=True)

    graph, _ = captured(work)
    for value in (1.0, 2.0):
        source.fill_(value)
        graph.replay()
        torch.accelerator.synchronize()
        assert target.tolist() == [2 * value] * 4


def test_queries_say_what_is_captured():
    stream, other = torch.Stream(DEVICE), torch.Stream(DEVICE)
    graph = torch.accelerator.Graph()
    with stream:
        assert not stream.is_capturing()
        graph.capture_begin()
        assert stream.is_capturing() and not other.is_capturing()
        assert torch.simulated.is_current_stream_capturing()
        torch.ones(1, device=DEVICE)
        graph.capture_end()
        assert not stream.is_capturing()
    assert not torch.simulated.is_current_stream_capturing()


WAITS = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool((x > 0).all()),
    "to the host": lambda x: x.cpu(),
    "from the host": lambda x: torch.ones(2).to(DEVICE),
    "from memory that is not pinned": lambda x: x.copy_(torch.ones(8), non_blocking=True),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "masked write": lambda x: x.index_put_((x > 0,), torch.zeros((), device=DEVICE)),
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "index on the host": lambda x: x[torch.tensor([1, 2])],
    "synchronize": lambda x: torch.accelerator.synchronize(),
    "stream": lambda x: torch.accelerator.current_stream().synchronize(),
    "query": lambda x: torch.accelerator.current_stream().query(),
    "event": lambda x: torch.accelerator.current_stream().record_event().synchronize(),
    "seed": lambda x: torch.manual_seed(0),
    "state": lambda x: torch.simulated.get_rng_state(),
    "empty_cache": lambda x: torch.accelerator.empty_cache(),
    "lstm": lambda x: torch.nn.LSTM(8, 8).to(DEVICE)(x[None]),
}


@pytest.mark.parametrize("what", WAITS)
def test_what_makes_the_host_wait_is_refused(what):
    x = on_device(8)
    refused(lambda: WAITS[what](x), "operation not permitted")


def test_indices_of_the_device_are_captured():
    x, index = on_device(8), torch.tensor([3, 1], device=DEVICE)
    graph, result = captured(lambda: x[index])
    index.copy_(torch.tensor([0, 7]))
    graph.replay()
    assert bits(result) == bits(x[index])


def test_the_default_stream_is_refused():
    with pytest.raises(RuntimeError, match="non-default stream"):
        torch.accelerator.Graph().capture_begin()


def test_calls_in_the_wrong_order_are_refused():
    graph = torch.accelerator.Graph()
    with pytest.raises(RuntimeError, match="without a preceding"):
        graph.replay()
    with pytest.raises(RuntimeError, match="before capture_begin"):
        graph.capture_end()
    x = on_device(2)
    graph, _ = captured(lambda: x.add_(1))
    with torch.Stream(DEVICE), pytest.raises(RuntimeError, match="owns a capture already"):
        graph.capture_begin()
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding"):
        graph.replay()


@pytest.mark.parametrize("mode, other_thread", [
    ("global", True), ("thread_local", False), ("relaxed", False)])
def test_the_mode_says_which_threads_may_wait(mode, other_thread):
    """For a stream that has no part in the capture."""
    uninvolved = torch.Stream(DEVICE)
    found = []

    def wait():
        try:
            uninvolved.synchronize()
        except RuntimeError as error:
            found.append(str(error))

    stream, graph = torch.Stream(DEVICE), torch.accelerator.Graph(capture_error_mode=mode)
    with stream:
        graph.capture_begin()
        torch.ones(1, device=DEVICE)
        thread = threading.Thread(target=wait)
        thread.start(), thread.join()
        assert bool(found) == other_thread
        if not found:
            wait()
        assert bool(found) == (mode != "relaxed")
        if found:
            with pytest.raises(RuntimeError, match="a wait for a stream"):
                graph.capture_end()
        else:
            graph.capture_end()


@pytest.mark.usefixtures("order")
def test_a_stream_that_waits_for_the_capture_joins_it():
    x, y = on_device(64), torch.zeros(64, device=DEVICE)
    side, other, graph = torch.Stream(DEVICE), torch.Stream(DEVICE), torch.accelerator.Graph()
    with side:
        graph.capture_begin()
        doubled = x * 2
        other.wait_event(side.record_event())
        assert other.is_capturing()
        with other:
            y.copy_(doubled + 1)
        side.wait_event(other.record_event())
        y.add_(doubled)
        graph.capture_end()
    assert not other.is_capturing()
    assert not y.cpu().any()
    graph.replay()
    assert bits(y) == bits(x * 2 + 1 + x * 2)


def test_a_stream_that_joined_must_be_waited_for():
    x = on_device(4)
    side, other, graph = torch.Stream(DEVICE), torch.Stream(DEVICE), torch.accelerator.Graph()
    with side:
        graph.capture_begin()
        x.add_(1)
        other.wait_event(side.record_event())
        with other:
            x.mul_(2)
        with pytest.raises(RuntimeError, match="unjoined work"):
            graph.capture_end()


def test_events_from_outside_are_refused():
    event = torch.accelerator.current_stream().record_event()
    refused(lambda: torch.accelerator.current_stream().wait_event(event), "outside the capture")


def test_events_of_a_capture_mean_nothing_afterwards():
    x, events = on_device(4), []

    def work():
        x.add_(1)
        events.append(torch.accelerator.current_stream().record_event())

    captured(work)
    with pytest.raises(RuntimeError, match="in a capturing stream"):
        events[1].synchronize()
    with pytest.raises(RuntimeError, match="in a capturing stream"):
        torch.accelerator.current_stream().wait_event(events[1])


def test_a_refused_capture_leaves_everything_as_it_was():
    x = on_device(8)
    before = bits(x), bits(torch.simulated.get_rng_state())

    def work():
        x.add_(torch.rand(8, device=DEVICE))
        return x.sum().item()

    refused(work, "operation not permitted")
    assert (bits(x), bits(torch.simulated.get_rng_state())) == before


def test_memory_of_a_graph_stays_until_it_is_gone():
    x = on_device(1 << 12)

    def work():
        return (x + 1) * 2

    graph, result = captured(work)
    address = result.data_ptr()
    held = torch.simulated.memory_allocated()
    del result
    gc.collect()
    assert torch.simulated.memory_allocated() == held  # replays write it
    others = [torch.zeros(1 << 12, device=DEVICE) for _ in range(8)]
    assert address not in [other.data_ptr() for other in others]
    graph.replay()
    torch.accelerator.synchronize()
    assert not any(other.any().item() for other in others)
    del others
    graph.reset()
    assert torch.simulated.memory_allocated() < held


def test_released_blocks_of_a_capture_serve_it_again():
    x = on_device(1 << 12)

    def chain():
        y = x
        for _ in range(20):
            y = y + 1
        return y

    before = torch.simulated.memory_allocated()
    graph, result = captured(chain)
    assert torch.simulated.memory_allocated() - before <= 3 * x.nbytes
    graph.replay()
    assert bits(result) == bits(chain())


def test_graphs_share_a_pool():
    x = on_device(1 << 12)
    first, result = captured(lambda: x + 1)
    kept = bits(result)
    del result
    held = torch.simulated.memory_allocated()
    second, result = captured(lambda: x + 2, pool=first.pool())
    assert second.pool() == first.pool()
    assert torch.simulated.memory_allocated() <= held
    second.replay()
    assert bits(result) == bits(x + 2) != kept


def test_results_outlive_their_graph():
    x = on_device(16)
    graph, result = captured(lambda: x * 3)
    graph.replay()
    wanted = bits(x * 3)
    del graph
    gc.collect()
    others = [torch.zeros(16, device=DEVICE) for _ in range(4)]
    assert bits(result) == wanted and len(others) == 4


def test_a_graph_can_be_written_down(tmp_path):
    x = on_device(4)
    graph, _ = captured(lambda: torch.relu(x).sum())
    graph.debug_dump(str(tmp_path / "graph.txt"))
    assert (tmp_path / "graph.txt").read_text().split() == ["aten::relu", "aten::sum"]


def test_an_error_of_a_kernel_comes_with_the_replay():
    table, index = on_device(4, 2), torch.zeros(2, dtype=torch.long, device=DEVICE)
    graph, _ = captured(lambda: F.embedding(index, table))
    index.fill_(9)
    with pytest.raises((RuntimeError, IndexError), match="out of range"):
        graph.replay()
