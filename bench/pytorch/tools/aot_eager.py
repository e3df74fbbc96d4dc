"""torch.compile with AOTAutograd's partitioned graphs run op by op."""

from . import compiled


def prepare(case, optimizer, setting):
    return compiled.prepare(case, "aot_eager", setting)
