"""The arithmetic of a node of a traced graph, counted."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import fx
from torch.utils import flop_counter

_aten = torch.ops.aten

#: Ops that PyTorch's own table lacks: attention as it is done on CPUs.
_ATTENTION: dict[object, Callable[..., int]] = {
    _aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_:
        flop_counter.sdpa_flop_count(q.shape, k.shape, v.shape),
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: lambda gradient, q, k, v, *_:
        flop_counter.sdpa_backward_flop_count(gradient.shape, q.shape, k.shape, v.shape),
}


def flops(node: fx.Node) -> int | None:
    """Floating-point operations of one execution; None for an op that nobody counts.

    As ``torch.utils.flop_counter`` counts: products, convolutions, attention. Needs ``meta["val"]``
    of the node and of what it reads.
    """
    packet = getattr(node.target, "overloadpacket", None)
    if packet not in _ATTENTION and packet not in flop_counter.flop_registry:
        return None
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda read: read.meta["val"])
    if packet in _ATTENTION:
        return _ATTENTION[packet](*args)
    return flop_counter.flop_registry[packet](*args, **kwargs, out_val=node.meta["val"])
