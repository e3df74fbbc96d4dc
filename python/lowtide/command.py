"""The command ``lowtide`` of a wheel, which has the compiled program in the folder ``bin``."""

from __future__ import annotations

import os
import pathlib
import sys

from .built_for import TorchVersionError, check_torch

_PROGRAM = pathlib.Path(__file__).with_name("bin") / "lowtide"


def main() -> int:
    """Becomes the program; returns only where it cannot run."""
    try:
        check_torch()
    except TorchVersionError as error:
        return _cannot_run(str(error))
    except ModuleNotFoundError:
        return _cannot_run("the command needs LibTorch: pip install torch, of the version that "
                           "this wheel was built for. lowtide.plan and lowtide.frontier of Python "
                           "do without.")
    os.execv(_PROGRAM, [str(_PROGRAM), *sys.argv[1:]])


def _cannot_run(reason: str) -> int:
    print(f"lowtide: {reason}", file=sys.stderr)
    return 1
