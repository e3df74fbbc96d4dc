"""What the buffers of a lowered graph take at most, while its kernels run in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from torch._inductor.graph import GraphLowering
from torch._inductor.memory import (
    BufferInfo,
    FreeableInputBuffer,
    compute_memory_timeline,
    get_freeable_input_buf,
)
from torch._inductor.scheduler import BaseSchedulerNode, FusedSchedulerNode, SchedulerNode
from torch.utils._ordered_set import OrderedSet


def peak_bytes(lowering: GraphLowering, kernels: Sequence[BaseSchedulerNode],
               scratch: Sequence[int], copied: Mapping[str, int]) -> int:
    """The peak of results, values and inputs that may be freed, in bytes, with what each kernel
    allocates and frees itself.

    ``copied``: bytes of inputs that are named as what lies in memory anyway and are copies of it.

    To be called with ``lowering`` as the graph handler, once its scheduler is done. As in the code
    that is generated, a value that only its own kernel reads is no buffer, and a kernel writes a
    result over an input of that size which nothing reads later, element by element.
    """
    freed = get_freeable_input_buf(kernels, OrderedSet(lowering.graph_inputs))
    results = OrderedSet(lowering.get_output_names())
    timeline, _, _ = compute_memory_timeline(kernels, freed, results)
    buffers = [_whole(info, lowering) for info in timeline if not _inside_kernel(info, kernels)]
    change, beginning, ending = [0] * (len(kernels) + 1), {}, {}
    for info in buffers:
        change[info.start_step] += info.size_alloc
        beginning.setdefault(info.start_step, {})[info.buffer.get_name()] = info.size_alloc
        if info.end_step >= 0:
            change[info.end_step + 1] -= info.size_free
            ending.setdefault(info.end_step, {})[info.buffer.get_name()] = info.size_free
    for name, size in copied.items():
        change[0] += size
        change[_last_use(name, kernels) + 1] -= size
    live = peak = 0
    for step, kernel in enumerate(kernels):
        live += change[step]
        reused = _in_place(kernel, beginning.get(step, {}), ending.get(step, {}))
        peak = max(peak, live + scratch[step] - reused)
    return peak


def _whole(info: BufferInfo, lowering: GraphLowering) -> BufferInfo:
    """Of an input all bytes: Inductor counts those that a kernel reads, such as one gate of four,
    and all of it lies in memory until the last is read."""
    if not isinstance(info.buffer, FreeableInputBuffer):
        return info
    given = lowering.graph_inputs[info.buffer.get_name()]
    size = max(info.size_free, int(given.get_numel()) * given.get_dtype().itemsize)
    return dataclasses.replace(info, size_alloc=size, size_free=size)


def _last_use(name: str, kernels) -> int:
    reading = (step for step, kernel in enumerate(kernels)
               if any(dep.name == name for dep in kernel.read_writes.reads))
    return max(reading, default=-1)


def _inside_kernel(info: BufferInfo, kernels) -> bool:
    if info.start_step != info.end_step:
        return False
    kernel = kernels[info.start_step]
    return (isinstance(kernel, FusedSchedulerNode)
            and info.buffer.get_name() in {made.get_name() for made in kernel.get_outputs()})


def _in_place(kernel, beginning: dict[str, int], ending: dict[str, int]) -> int:
    """Bytes of results that a kernel writes over inputs that end with it."""
    left, reused = dict(ending), 0
    for node in kernel.get_nodes():
        if not isinstance(node, SchedulerNode):
            continue
        for buffer in node.get_outputs():
            size = beginning.get(buffer.get_name())
            over = next((read.name for read in node.read_writes.reads
                         if left.get(read.name) == size and node.can_inplace(read)
                         and _only_use(read, kernel)), None)
            if size and over is not None:
                reused += left.pop(over)
    return reused


def _only_use(read, kernel) -> bool:
    """Whether a kernel reads a buffer in one place alone."""
    uses = [dep for node in kernel.get_nodes() for dep in node.read_writes.reads_and_writes()
            if dep.name == read.name]
    return len(uses) == 1
