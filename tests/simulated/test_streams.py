"""Streams work late and in random order, unless events or the program wait for them."""

import pytest
import torch
from lowtide.pytorch import simulated

SEEDS = range(100)


@pytest.fixture(autouse=True)
def restored_seed():
    yield
    simulated.reseed(1)


def pinned(*values):
    return torch.tensor(values).pin_memory()


def over_seeds(program):
    """The distinct outcomes of a program over all seeds."""
    found = set()
    for seed in SEEDS:
        simulated.reseed(seed)
        found.add(program())
        torch.simulated.synchronize()
    return found


def test_a_copy_to_the_host_is_late():
    x = torch.ones(4, device="simulated")

    def unsynchronized():
        host = pinned(0.0, 0.0, 0.0, 0.0)
        host.copy_(x, non_blocking=True)
        return host.sum().item()

    def synchronized():
        host = pinned(0.0, 0.0, 0.0, 0.0)
        host.copy_(x, non_blocking=True)
        torch.simulated.synchronize()
        return host.sum().item()

    assert over_seeds(unsynchronized) == {0.0, 4.0}
    assert over_seeds(synchronized) == {4.0}


def test_a_copy_from_pinned_memory_is_late():
    def changed_too_early():
        host = pinned(1.0, 2.0)
        x = host.to("simulated", non_blocking=True)
        host.zero_()
        return x.sum().item()

    def unpinned():
        host = torch.tensor([1.0, 2.0])
        x = host.to("simulated", non_blocking=True)
        host.zero_()
        return x.sum().item()

    assert over_seeds(changed_too_early) == {0.0, 3.0}
    assert over_seeds(unpinned) == {3.0}


def prefetched(wait):
    """A copy on a side stream that the default stream uses."""
    x = torch.zeros(4, device="simulated")
    side = torch.simulated.Stream()
    host = pinned(1.0, 2.0, 3.0, 4.0)
    side.wait_stream(torch.simulated.current_stream())
    with torch.simulated.stream(side):
        x.copy_(host, non_blocking=True)
        copied = side.record_event()
    if wait:
        torch.simulated.current_stream().wait_event(copied)
    return (x * 2).sum().item()


def test_a_stream_waits_for_an_event():
    assert over_seeds(lambda: prefetched(wait=True)) == {20.0}
    assert over_seeds(lambda: prefetched(wait=False)) == {0.0, 20.0}


def offloaded(wait):
    """A copy on a side stream of what the default stream makes."""
    side = torch.simulated.Stream()
    x = torch.full((4,), 2.0, device="simulated") * 3
    host = pinned(0.0, 0.0, 0.0, 0.0)
    if wait:
        side.wait_stream(torch.simulated.current_stream())
    with torch.simulated.stream(side):
        host.copy_(x, non_blocking=True)
    side.synchronize()
    return str(host.sum().item())


def test_a_side_stream_sees_late_what_kernels_make():
    assert over_seeds(lambda: offloaded(wait=True)) == {"24.0"}
    assert over_seeds(lambda: offloaded(wait=False)) == {"24.0", "nan"}


def copied_by_a_side_stream():
    """A side stream, ones of the device, and the memory to which that stream copies them."""
    side = torch.simulated.Stream()
    x = torch.ones(4, device="simulated")
    host = pinned(0.0, 0.0, 0.0, 0.0)
    side.wait_stream(torch.simulated.current_stream())
    with torch.simulated.stream(side):
        host.copy_(x, non_blocking=True)
    return side, x, host


def overwritten(wait):
    """An op changes what a side stream still copies."""
    side, x, host = copied_by_a_side_stream()
    if wait:
        torch.simulated.current_stream().wait_stream(side)
    x.add_(1)
    torch.simulated.synchronize()
    return host.sum().item()


def test_an_op_does_not_overwrite_what_is_copied():
    assert over_seeds(lambda: overwritten(wait=True)) == {4.0}
    assert over_seeds(lambda: overwritten(wait=False)) == {4.0, 8.0}


def reused(record):
    """Memory is freed while a side stream still copies from it."""
    side, x, host = copied_by_a_side_stream()
    if record:
        x.record_stream(side)
    del x
    y = torch.full((4,), 5.0, device="simulated")
    torch.simulated.synchronize()
    assert y.sum().item() == 20
    return host.sum().item()


def test_record_stream_keeps_memory():
    assert over_seeds(lambda: reused(record=True)) == {4.0}
    assert over_seeds(lambda: reused(record=False)) == {4.0, 20.0}


def test_another_stream_gets_memory_after_the_work_on_it():
    """The copy into freed memory must not come after what the next owner writes."""
    def program():
        x = pinned(1.0, 1.0).to("simulated", non_blocking=True)
        del x
        side = torch.simulated.Stream()
        with torch.simulated.stream(side):
            y = torch.full((2,), 3.0, device="simulated")
        torch.simulated.synchronize()
        return y.sum().item()

    assert over_seeds(program) == {6.0}


def test_memory_of_a_recorded_stream_is_waited_for_before_an_error():
    side = torch.simulated.Stream()
    x = torch.zeros(40 << 20, device="simulated")
    host = torch.zeros(1).pin_memory()
    side.wait_stream(torch.simulated.current_stream())
    with torch.simulated.stream(side):
        host.copy_(x[:1], non_blocking=True)
    x.record_stream(side)
    del x
    assert torch.zeros(40 << 20, device="simulated")[-1].item() == 0


def test_work_of_one_stream_keeps_its_order():
    def program():
        x = torch.empty(3, device="simulated")
        for value in range(5):
            x.copy_(torch.full((3,), float(value)).pin_memory(), non_blocking=True)
        host = torch.zeros(3).pin_memory()
        host.copy_(x, non_blocking=True)
        torch.simulated.current_stream().synchronize()
        return host.sum().item()

    assert over_seeds(program) == {12.0}


def test_events_measure_and_are_asked():
    first, last = (torch.simulated.Event(enable_timing=True) for _ in range(2))
    first.record()
    x = torch.ones(300, 300, device="simulated")
    x @ x
    last.record()
    while not last.query():
        pass
    assert 0 <= first.elapsed_time(last) < 10_000
    untimed = torch.simulated.Event()
    untimed.record()
    untimed.synchronize()
    with pytest.raises(ValueError, match="enable_timing"):
        untimed.elapsed_time(last)


def test_a_stream_is_asked():
    stream = torch.simulated.Stream()
    with stream:
        assert torch.simulated.current_stream() == stream
        x = torch.ones(8, device="simulated")
        host = torch.zeros(8).pin_memory()
        host.copy_(x, non_blocking=True)
    assert torch.simulated.current_stream() == torch.simulated.default_stream()
    while not stream.query():
        pass
    assert host.sum() == 8


def trained(seed):
    """A model with a prefetched batch and an offloaded activation, all in order."""
    simulated.reseed(seed)
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Tanh(),
                                torch.nn.Linear(16, 4)).to("simulated")
    optimizer = torch.optim.Adam(model.parameters())
    side, main = torch.simulated.Stream(), torch.simulated.current_stream()
    for _ in range(3):
        host = torch.randn(5, 8).pin_memory()
        with torch.simulated.stream(side):
            x = host.to("simulated", non_blocking=True)
        main.wait_stream(side)
        x.record_stream(main)
        hidden = model[1](model[0](x))
        kept = torch.empty(hidden.shape).pin_memory()
        side.wait_stream(main)
        with torch.simulated.stream(side):
            kept.copy_(hidden.detach(), non_blocking=True)
            back = kept.to("simulated", non_blocking=True)
        hidden.record_stream(side)
        main.wait_stream(side)
        back.record_stream(main)
        loss = model[3](model[2](hidden)).square().mean() + (hidden - back).abs().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return tuple(p.detach().cpu().numpy().tobytes() for p in model.parameters())


@pytest.mark.parametrize("seeds", [
    pytest.param(SEEDS, id="usual"),
    pytest.param(range(100, 5000), id="more", marks=pytest.mark.sweep)])
def test_the_order_never_changes_what_an_ordered_program_computes(seeds):
    assert len({trained(seed) for seed in seeds}) == 1


def test_a_backward_pass_on_a_side_stream():
    def program():
        side = torch.simulated.Stream()
        w = torch.ones(3, 3, device="simulated", requires_grad=True)
        side.wait_stream(torch.simulated.current_stream())
        with torch.simulated.stream(side):
            loss = (w @ w).tanh().sum()
        torch.simulated.current_stream().wait_stream(side)
        loss.backward()
        return w.grad.sum().item()

    assert len(over_seeds(program)) == 1
