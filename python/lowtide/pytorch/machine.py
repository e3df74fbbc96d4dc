"""What torch and the compiled part find of this machine, for ``python -m lowtide doctor``:
``python -m lowtide.pytorch.machine`` prints one line of JSON."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile

import torch

from .. import _runtime
from .common.private_folder import is_private


def machine() -> dict:
    """``cache``: the folder, and ``why_no_cache``: what is wrong with it, or ""; ``memory``: free
    bytes, those that this process may use in all, and the machine's."""
    free, usable = _runtime.device_memory("cpu")
    folder = _runtime.profile_path().parent
    return {
        "threads": torch.get_num_threads(), "devices": list(_devices()),
        "memory": {"free": free, "usable": usable,
                   "machine": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")},
        "cache": str(folder), "why_no_cache": why_no_cache(folder),
    }


def _devices():
    """GPUs, each with its name and bytes."""
    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        yield {"device": f"cuda:{number}", "name": properties.name,
               "bytes": properties.total_memory}


def why_no_cache(folder: pathlib.Path) -> str:
    """Makes no folder."""
    place = folder
    while not place.exists():
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return f"nothing can be written in {place}: {error.strerror}"
    return "" if is_private(folder) else f"another user may write in {folder}"


if __name__ == "__main__":
    print(json.dumps(machine()))
