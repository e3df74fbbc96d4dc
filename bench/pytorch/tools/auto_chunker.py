"""torch.compile with Inductor's auto_chunker, which runs the ops around a wide head in parts."""

import torch
import torch._inductor.config

from . import NotApplicable


def prepare(case, optimizer, setting):
    if not hasattr(torch._inductor.config, "auto_chunker"):
        raise NotApplicable("this version of PyTorch has no auto_chunker")
    torch._inductor.config.compile_threads = 1
    torch._inductor.config.auto_chunker.enable = True
    compiled_module = torch.compile(case.module)
    return lambda: compiled_module(*case.inputs)
