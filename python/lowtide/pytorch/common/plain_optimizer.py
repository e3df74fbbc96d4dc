"""The optimizer within the object of a framework."""

from __future__ import annotations

#: Their objects pass all on to the optimizer in the attribute, and hold nothing of their own.
_WITHIN = {"accelerate": "optimizer", "lightning": "_optimizer", "pytorch_lightning": "_optimizer"}


def plain_optimizer(optimizer):
    """What Accelerate or Lightning has put into an object whose class says nothing of the state;
    anything else as it is."""
    name = _WITHIN.get(type(optimizer).__module__.split(".")[0])
    return optimizer if name is None else getattr(optimizer, name, optimizer)
