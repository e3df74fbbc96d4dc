"""The command ``lowtide`` of a wheel, which has the compiled program in the folder ``bin``."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys

_PROGRAM = pathlib.Path(__file__).with_name("bin") / "lowtide"


def main() -> int:
    """Becomes the program; returns only where it cannot run."""
    if importlib.util.find_spec("torch") is None:
        print("lowtide: the command needs LibTorch: pip install torch, of the version that this "
              "wheel was built for. lowtide.plan and lowtide.frontier of Python do without.",
              file=sys.stderr)
        return 1
    os.execv(_PROGRAM, [str(_PROGRAM), *sys.argv[1:]])
