"""The explanation and the memory of a wrapped module."""

from __future__ import annotations

import torch

from .budget.memory import Memory
from .planned_class import session_of


def explanation(model: torch.nn.Module, most: int) -> str:
    """The memory of a step and what runs again; ``most`` lines of a kind.

    Raises InputError for a module that is not wrapped.
    """
    return session_of(model).explanation(most)


def memory(model: torch.nn.Module) -> Memory:
    """What a step of a wrapped module was planned to take and took, in bytes.

    Raises InputError for a module that is not wrapped.
    """
    return session_of(model).memory()
