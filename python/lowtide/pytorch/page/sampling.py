"""Measures the memory of a step while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ...page import MeasuredMemory

_SECONDS_BETWEEN = 0.0005


def measured_step(step: Callable[[], object], taken: Callable[[], int]) -> MeasuredMemory:
    """Runs the step. Beside it a thread reads what is ``taken`` of the framework's allocator."""
    samples: list[tuple[float, int]] = []
    is_over = threading.Event()
    began = time.perf_counter()

    def sample():
        while not is_over.wait(_SECONDS_BETWEEN):
            samples.append((time.perf_counter() - began, taken()))

    thread = threading.Thread(target=sample, name="lowtide report", daemon=True)
    samples.append((0.0, taken()))
    thread.start()
    try:
        step()
    finally:
        is_over.set()
        thread.join()
    samples.append((time.perf_counter() - began, taken()))
    times, sizes = zip(*samples)
    return MeasuredMemory(times, sizes, f"what the framework's allocator had given, read every "
                                        f"{1e3 * _SECONDS_BETWEEN} ms of one step")
