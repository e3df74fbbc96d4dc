"""The checks, in the order in which one needs what another found."""

from __future__ import annotations

import importlib.metadata
import pathlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator

from .. import _core, format_bytes
from ..built_for import TorchVersionError, check_torch, installed_torch
from .finding import ABSENT, FAULT, OK, WARNING, Finding
from .probe import probed
from .programs import CHROMIUM

_FOLDER = pathlib.Path(_core.__file__).parent
_AGAIN = "build Lowtide again: docs/how-to/install.md"
#: What only some uses need, by what they are: names of programs, and what to install.
_PROGRAMS = {
    "Graphviz": (("dot",), "draws .dot files of lowtide.report: apt-get install graphviz"),
    "Chromium": (CHROMIUM, "opens pages in the tests, as any browser does for people: apt-get "
                           "install chromium"),
}
_PACKAGES = {
    "plotly": "draws the page of lowtide.report: pip install \"lowtide[report]\"",
    "transformers": "the callback for Hugging Face: pip install transformers accelerate",
    "lightning": "the callback for Lightning: pip install lightning",
    "safetensors": "checkpoints of many ranks: pip install safetensors",
}


def checks() -> list[Finding]:
    return [_python(), _planner(), *_with_torch(), _program(), *_optional()]


def _python() -> Finding:
    return Finding("Python", OK, f"{platform.python_version()} at {sys.executable}")


def _planner() -> Finding:
    """That it is here says that it was loaded."""
    return Finding("planner", OK, str(_core.__file__))


def _with_torch() -> Iterator[Finding]:
    try:
        check_torch()
    except TorchVersionError as error:
        text, _, advice = str(error).partition(": ")
        yield Finding("torch", FAULT, text, advice)
        return
    except ModuleNotFoundError:
        yield Finding("torch", FAULT, "is not installed; planning works without it",
                      f"pip install torch=={_core.torch_version}")
        return
    yield Finding("torch", OK, f"{installed_torch()}; built for {_core.torch_version}")
    if not list(_FOLDER.glob("_runtime.*")):
        yield Finding("executor", FAULT, f"the compiled part _runtime is not in {_FOLDER}", _AGAIN)
        return
    found = probed()
    if isinstance(found, str):
        yield Finding("executor", FAULT, found, _AGAIN)
        return
    yield Finding("executor", OK, str(next(_FOLDER.glob("_runtime.*"))))
    yield from of_machine(found)


def of_machine(found: dict) -> Iterator[Finding]:
    """``found``: what ``lowtide.pytorch.machine`` has."""
    yield Finding("processor", OK, f"{found['threads']} threads of torch")
    for device in found["devices"]:
        yield Finding(device["device"], OK,
                      f"{device['name']}, {format_bytes(device['bytes'])}; training on a GPU was "
                      f"never tried")
    if not found["devices"]:
        yield Finding("GPU", ABSENT, "torch finds none; plans for GPUs are made all the same")
    memory = found["memory"]
    yield Finding("memory", OK, f"{format_bytes(memory['free'])} free of "
                                f"{format_bytes(memory['machine'])}")
    is_limited = memory["usable"] < memory["machine"]
    yield Finding("control group", OK, f"limits this process to {format_bytes(memory['usable'])}"
                                       if is_limited else "no limit below the machine's memory")
    if found["why_no_cache"]:
        yield Finding("cache", WARNING, found["why_no_cache"],
                      "measurements and plans are made again by each process: give this user a "
                      "folder of its own, by XDG_CACHE_HOME for example")
    else:
        yield Finding("cache", OK, found["cache"])


def _program() -> Finding:
    """The command, beside the package or in the path."""
    inside = _FOLDER / "bin" / "lowtide"
    program = str(inside) if inside.exists() else shutil.which("lowtide")
    if program is None:
        return Finding("command", ABSENT, "lowtide is not in the PATH; Python does without",
                       "put the folder of the command, such as .venv/bin, into the PATH")
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("command", WARNING, f"{program} does not run: {error}", _AGAIN)
    if done.returncode:
        return Finding("command", WARNING, f"{program} does not run: "
                                           f"{done.stderr.strip() or done.returncode}", _AGAIN)
    return Finding("command", OK, f"{done.stdout.strip()} at {program}")


def _optional() -> Iterator[Finding]:
    for name, (programs, use) in _PROGRAMS.items():
        found = next(filter(None, map(shutil.which, programs)), None)
        yield Finding(name, ABSENT, use) if found is None else Finding(name, OK, found)
    for package, use in _PACKAGES.items():
        try:
            yield Finding(package, OK, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(package, ABSENT, use)
