"""Which nodes of a joint graph make no elements."""

from __future__ import annotations

import operator

import torch
from torch import fx


def is_view(node: fx.Node) -> bool:
    """Whether a node's result shares the storage of what it reads: making it again is free."""
    if node.target is operator.getitem:
        return is_view(node.args[0])
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    if node.target is torch.ops.aten._unsafe_view.default:
        return True
    returns = node.target._schema.returns
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)
