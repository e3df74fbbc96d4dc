"""Measures the memory of a step while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ... import _runtime
from ...page import MeasuredMemory
from ..autograd.session import Session

_SECONDS_BETWEEN = 0.0005


def measured_step(session: Session, step: Callable[[], object]) -> MeasuredMemory:
    """Runs the step. Beside it a thread reads what the framework's allocator has given; what
    existed before the step is added as the session counts it, as in its measured peak."""
    device = session.regions[0].captured.device
    held = sum(executor.held_bytes for region in session.regions for executor in region.executors)
    before = session.memory().existing - (_runtime.taken_bytes(device) - held)
    samples: list[tuple[float, int]] = []
    is_over = threading.Event()
    began = time.perf_counter()

    def sample():
        while not is_over.wait(_SECONDS_BETWEEN):
            samples.append((time.perf_counter() - began, _runtime.taken_bytes(device)))

    thread = threading.Thread(target=sample, name="lowtide report", daemon=True)
    samples.append((0.0, _runtime.taken_bytes(device)))
    thread.start()
    try:
        step()
    finally:
        is_over.set()
        thread.join()
    samples.append((time.perf_counter() - began, _runtime.taken_bytes(device)))
    times, sizes = zip(*samples)
    return MeasuredMemory(times, [before + size for size in sizes],
                    f"what the framework's allocator had given, read every "
                    f"{1e3 * _SECONDS_BETWEEN} ms of one step; the block of a plan is taken as a "
                    f"whole")
