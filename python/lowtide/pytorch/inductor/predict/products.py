"""What products, convolutions and attention take: kernels of libraries, which Inductor calls.

How fast such a kernel is and what scratch memory it allocates no graph tells; on processors one of
each kind is run, with the values that a step would give it in size and layout.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from .... import _runtime
from ...capture.arithmetic import flops
from .nodes import node_bytes
from .rates import microseconds

#: A kernel is run once to warm up, and then until it took so many seconds, or so often.
_SECONDS, _RUNS = 0.02, 5

_ON_IMAGES = {torch.ops.aten.convolution, torch.ops.aten.convolution_backward}


@dataclass(frozen=True)
class KernelCost:
    """``scratch_bytes``: the most beside what the kernel reads and makes."""

    microseconds: float
    scratch_bytes: int


NOTHING = KernelCost(0.0, 0)
_measured: dict[tuple, KernelCost] = {}


def kernel_cost(node: fx.Node) -> KernelCost:
    """Of one execution of a node of a traced graph; nothing where ``flops`` counts nothing.

    Measured once for each kind of call in this process, and estimated from operations and bytes
    where its values are not on the processor. Needs ``meta["val"]`` of it and of what it reads.
    """
    operations = flops(node)
    if operations is None:
        return NOTHING
    arguments = _laid_out(node)
    values = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
    if any(value.device.type != "cpu" for value in values):
        moved = sum(map(node_bytes, [node, *node.all_input_nodes]))
        return KernelCost(microseconds(operations, moved, 0), 0)
    key = _kind(node, arguments)
    if key not in _measured:
        _measured[key] = _run(node.target, arguments)
    return _measured[key]


def _laid_out(node):
    """What a node is called with, as fake tensors in the layout that Inductor gives them: images
    with their channels last."""
    def laid_out(read):
        value = read.meta["val"]
        if not images or not isinstance(value, torch.Tensor) or value.dim() != 4:
            return value
        return value.to(memory_format=torch.channels_last)

    images = getattr(node.target, "overloadpacket", None) in _ON_IMAGES
    return fx.map_arg((node.args, node.kwargs), laid_out)


def _kind(node, arguments):
    leaves, structure = pytree.tree_flatten(arguments)
    described = [(tuple(leaf.shape), leaf.stride(), leaf.dtype)
                 if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves]
    return node.target, tuple(described), str(structure), torch.get_num_threads()


def _run(op, arguments) -> KernelCost:
    with _disable_current_modes(), torch.no_grad():
        given, named = pytree.tree_map_only(torch.Tensor, _filled, arguments)
        scratch = _scratch_bytes(op, given, named)
        seconds = []
        while len(seconds) < _RUNS and sum(seconds) < _SECONDS:
            before = _now()
            op(*given, **named)
            seconds.append(_now() - before)
    return KernelCost(1e6 * min(seconds), scratch)


def _now() -> float:
    """Of one thread the time that it ran: other work on the machine does not count."""
    return time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()


def _scratch_bytes(op, given, named):
    before = _runtime.taken_bytes()
    _runtime.reset_peaks()
    results = op(*given, **named)
    peak, after = _runtime.taken_peak_bytes(), _runtime.taken_bytes()
    del results
    return max(0, peak - max(before, after))


def _filled(value):
    """A tensor of its size with ordinary numbers in it."""
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).fill_(1)
