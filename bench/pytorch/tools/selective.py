"""Selective activation checkpointing: products and convolutions are kept, the rest of each block
is computed again."""

import functools

import torch
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from .checkpoint import wrap_blocks

aten = torch.ops.aten
KEPT = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default,
        aten.convolution.default, aten._scaled_dot_product_flash_attention_for_cpu.default}


def prepare(case, optimizer, setting):
    wrap_blocks(case, context_fn=functools.partial(create_selective_checkpoint_contexts, _policy))
    return lambda: case.module(*case.inputs)


def _policy(context, op, *arguments, **keywords):
    return CheckpointPolicy.MUST_SAVE if op in KEPT else CheckpointPolicy.PREFER_RECOMPUTE
