"""Names of a package that are loaded when they are first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from .interruptible import uninterrupted


def lazily(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that takes each of these names from its module, so that
    importing the package does not import what those need: torch, or Inductor."""
    def load(name: str):
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # torch is spoiled until the process ends if its import is interrupted.
        with uninterrupted():
            module = importlib.import_module(modules[name], package)
        return getattr(module, name)

    return load
