"""Lowtide: graphs split within a budget of bytes for all tensors of the process, compiled by
Inductor."""

import torch._inductor.config

from . import lowtide


def prepare(case, optimizer, setting, **options):
    torch._inductor.config.compile_threads = 1
    return lowtide.prepare(case, optimizer, setting, mode="inductor", **options)
