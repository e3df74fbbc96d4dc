"""What PyTorch's CPU allocator hands out, by the events of its profiler."""

import gc

import torch


def profiled(run):
    """Runs; the peak of allocated bytes above those at the start, what of them is left at the end,
    and how often each op ran."""
    gc.collect()  # what other tests left would be taken off where it goes within
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                profile_memory=True) as profile:
        run()
    in_use = peak = 0
    ran = {}
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            in_use += event.nbytes()
            peak = max(peak, in_use)
        else:
            ran[event.name()] = ran.get(event.name(), 0) + 1
    return peak, in_use, ran
