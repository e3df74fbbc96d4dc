"""Asks another process what needs torch: a part that does not load may end its process."""

from __future__ import annotations

import json
import subprocess
import sys

_PROGRAM = "lowtide.pytorch.machine"
#: torch takes seconds to load, on a busy machine many.
_SECONDS = 180


def probed() -> dict | str:
    """What ``lowtide.pytorch.machine`` prints; a sentence where it does not."""
    try:
        done = subprocess.run([sys.executable, "-m", _PROGRAM], capture_output=True, text=True,
                              timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return f"loading it took longer than {_SECONDS} seconds"
    except OSError as error:
        return f"{sys.executable} cannot be run: {error.strerror}"
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    if done.returncode < 0:
        return f"loading it ended the process by signal {-done.returncode}"
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"loading it ended the process with code {done.returncode}"
