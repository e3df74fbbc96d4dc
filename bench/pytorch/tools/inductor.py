"""torch.compile with AOTAutograd's partitioned graphs compiled by Inductor."""

import torch._inductor.config

from . import compiled


def prepare(case, optimizer, setting):
    torch._inductor.config.compile_threads = 1
    return compiled.prepare(case, "inductor", setting)
