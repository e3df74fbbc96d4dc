"""Which torch the compiled parts were built for: LibTorch keeps no interface between versions."""

from __future__ import annotations

import importlib.util
import pathlib
import runpy

from . import _core


class TorchVersionError(_core.InputError, ImportError):
    """The compiled part does not run with the torch that is installed."""


def check_torch() -> None:
    """Raises TorchVersionError where loading the compiled part would fail or break torch, and
    ModuleNotFoundError without torch. Does not import torch, which takes seconds."""
    if _core.torch_version is None:
        raise TorchVersionError("this build of Lowtide plans only: build it with LibTorch (without "
                                "-DLOWTIDE_RUNTIME=OFF) to train models.")
    installed = installed_torch()
    release, _, _ = installed.partition("+")  # builds for CPU and for CUDA have one interface
    if release != _core.torch_version:
        raise TorchVersionError(
            f"this build of Lowtide is for torch {_core.torch_version}, and torch {installed} is "
            f"installed: pip install torch=={_core.torch_version}, or build Lowtide again with "
            f"torch {release} (docs/how-to/install.md).")


def installed_torch() -> str:
    """Its version. Raises ModuleNotFoundError without torch; does not import it."""
    torch = importlib.util.find_spec("torch")
    if torch is None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    return runpy.run_path(str(pathlib.Path(torch.origin).with_name("version.py")))["__version__"]
