"""What the two ways of torch.compile share: the partitioner's activation_memory_budget.

1 keeps what the min-cut keeps, 0 is to keep the inputs alone.
"""

import torch
import torch._functorch.config


def prepare(case, backend, setting):
    torch._functorch.config.activation_memory_budget = float(setting)
    torch._dynamo.config.recompile_limit = 64
    compiled_module = torch.compile(case.module, backend=backend)
    return lambda: compiled_module(*case.inputs)
