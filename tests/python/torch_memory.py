"""What PyTorch's allocator of the tests' device hands out."""

import gc

import torch


def profiled(run):
    """Runs; the peak of allocated bytes above those at the start, what of them is left at the end,
    and how often each op ran."""
    gc.collect()  # what other tests left would be taken off where it goes within
    on_host = torch.get_default_device().type == "cpu"
    before = 0 if on_host else _restarted_count()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                profile_memory=on_host) as profile:
        run()
    events = profile.profiler.kineto_results.events()
    if on_host:
        return *_by_events(events), _counted(events)
    stats = torch.accelerator.memory_stats()
    return (stats["requested_bytes.all.peak"] - before,
            stats["requested_bytes.all.current"] - before, _counted(events))


def _restarted_count():
    """Begins the count of a device's allocator; the bytes that are in use."""
    torch.accelerator.reset_peak_memory_stats()
    return torch.accelerator.memory_stats()["requested_bytes.all.current"]


def _by_events(events):
    """Peak and rest by what the profiler saw of the CPU's allocator."""
    in_use = peak = 0
    for event in events:
        if event.name() == "[memory]":
            in_use += event.nbytes()
            peak = max(peak, in_use)
    return peak, in_use


def _counted(events):
    ran = {}
    for event in events:
        if event.name() != "[memory]":
            ran[event.name()] = ran.get(event.name(), 0) + 1
    return ran
