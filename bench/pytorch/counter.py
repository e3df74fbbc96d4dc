"""Bytes that the framework's CPU allocator has given out: counter.cpp, built at its first use."""

import ctypes
import hashlib
import os
import pathlib
import subprocess

import torch

SOURCE = pathlib.Path(__file__).with_name("counter.cpp")
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "out" / "bench"


class Counter:
    """Counts from its making on; to be made before lowtide is imported. Bytes."""

    def __init__(self):
        self._library = ctypes.CDLL(_library())
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


def _library():
    """The path of the library that counts for the installed torch; built where it is missing."""
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
