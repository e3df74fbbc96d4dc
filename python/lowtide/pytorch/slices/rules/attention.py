"""Fused attention: each sequence of a batch apart."""

from __future__ import annotations

import torch
from torch import fx

from .cut import Cut, KnownRows, Rows, shape

_aten = torch.ops.aten


def _attention(tensors: int, results: int):
    """The first arguments are tensors with the rows; a mask may have them."""
    def rule(node: fx.Node, known: KnownRows) -> Cut | None:
        read = node.args[:tensors]
        if Rows(0) not in map(known.rows, read) or not _has_rows(read, known):
            return None
        reads = dict.fromkeys(read, Rows(0))
        mask = node.kwargs.get("attn_mask")
        is_of_batch = mask is not None and len(shape(mask)) == len(shape(read[0]))
        if is_of_batch and _has_rows([mask], known):
            reads[mask] = Rows(0)
        return Cut(reads, [Rows(0)] * results)

    return rule


def _has_rows(tensors, known):
    return all(known.has(tensor, Rows(0)) for tensor in tensors)


RULES = {
    _aten._scaled_dot_product_flash_attention_for_cpu.default: _attention(3, results=2),
    _aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _attention(6, results=3),
}
