"""Bytes of tensors that live, and the most that ever did: counter.cpp, built at its first use.

The library must be in the process from its start: run the process in the environment of
`environment()`, and `install()` right after torch is imported, before lowtide is.
"""

import ctypes
import hashlib
import os
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).with_name("counter.cpp")
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "out" / "bench"


def library():
    """The path of the library that counts for the installed torch; builds it where it is missing."""
    import torch

    key = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:12]
    path = FOLDER / f"libcounter-{key}.so"
    if not path.exists():
        _build(pathlib.Path(torch.__file__).parent, path)
    return path


def _build(torch_folder, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    subprocess.run(["g++", "-std=c++20", "-O2", "-shared", "-fPIC", SOURCE, "-o", unfinished,
                    f"-I{torch_folder}/include", f"-L{torch_folder}/lib", "-lc10",
                    f"-Wl,-rpath,{torch_folder}/lib"], check=True)
    unfinished.replace(path)


def environment(path):
    """The variables of a process in which the library `path` counts."""
    return {**os.environ, "LD_PRELOAD": str(path)}


class Counter:
    """What the library counts. Bytes."""

    def __init__(self):
        path = os.environ.pop("LD_PRELOAD", None)  # children of this process need no counter
        if path is None:
            raise RuntimeError("the counter is not preloaded: run in environment(library())")
        self._library = ctypes.CDLL(path)
        for name in ("counter_now", "counter_peak"):
            getattr(self._library, name).restype = ctypes.c_int64
        self._library.counter_install()

    def now(self):
        return self._library.counter_now()

    def peak(self):
        """Since the last forget_peak()."""
        return self._library.counter_peak()

    def forget_peak(self):
        self._library.counter_forget_peak()
