"""Processes of this machine that others know by name, and whether they run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import socket

_PROC = pathlib.Path("/proc")
RUNNING, STOPPED, GONE = "running", "stopped", "gone"


@dataclasses.dataclass(frozen=True)
class ProcessIdentity:
    """``place``: equal where process numbers mean the same; "" where that cannot be told.
    ``started``: tells a process from a later one with its number."""

    host: str
    place: str
    pid: int
    started: str

    def state(self) -> str | None:
        """RUNNING, STOPPED by a signal or a debugger, or GONE; None for another machine's."""
        if not self.place or self.place != _place():
            return None
        fields = _stat(self.pid)
        if fields is None or fields[1] != self.started or fields[0] in "ZX":
            return GONE
        return STOPPED if fields[0] in "Tt" else RUNNING

    def end_if_stopped(self) -> None:
        """By SIGKILL, the one signal that ends a process that does not run."""
        if self.state() == STOPPED:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity:
        return cls(**json.loads(text))


def this_process() -> ProcessIdentity:
    fields = _stat(os.getpid())
    return ProcessIdentity(socket.gethostname(), _place() if fields else "", os.getpid(),
                           fields[1] if fields else "")


def processes_killed_for_memory() -> int | None:
    """How many the kernel has killed since it started, where it says so."""
    with contextlib.suppress(OSError, ValueError):
        for line in (_PROC / "vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None


def _stat(pid: int) -> tuple[str, str] | None:
    """The state's letter and the time of the start; None where there is no such process."""
    with contextlib.suppress(OSError, IndexError):
        fields = (_PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
        return fields[0], fields[19]  # behind the name, which may hold anything
    return None


def _place() -> str:
    """Of the running kernel and of the namespace of process numbers, such as a container's."""
    with contextlib.suppress(OSError):
        boot = (_PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
        return f"{boot} {os.readlink(_PROC / 'self' / 'ns' / 'pid')}"
    return ""
