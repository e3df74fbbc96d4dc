"""The tools that are compared, one module each, named as the tool.

A module's `prepare(case, optimizer, setting)` gives a function without arguments that computes the
loss of the batch, ready for backward(); or it raises NotApplicable. This table imports none of
them: most import torch.
"""

FRACTIONS = ("1", "0.8", "0.6", "0.4", "0.2", "0")
UNLIMITED = "inf"
LOWEST = "lowest"

# The settings a tool is measured at; "" where there is nothing to choose. Lowtide's others are
# bytes: the peaks of its peers.
TOOLS = {
    "eager": ("",),
    "checkpoint": ("",),
    "selective": ("",),
    "sequential": ("",),
    "aot_eager": FRACTIONS,
    "inductor": FRACTIONS,
    "lowtide": (UNLIMITED,),
    "lowtide_inductor": (UNLIMITED,),
}

# Lowtide's tools, and the peers at whose peaks each is measured.
OURS = {
    "lowtide": ("checkpoint", "selective", "sequential", "aot_eager", "inductor"),
    "lowtide_inductor": ("inductor",),
    "lowtide_slices": (),
    "lowtide_precision": (),
}


class NotApplicable(Exception):
    """The tool cannot train this model; the text says why."""
