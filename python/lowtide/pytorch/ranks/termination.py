"""SIGTERM within a watchdog. torchrun sends it to the other ranks a moment after one has failed,
when they are about to say which it was."""

from __future__ import annotations

import os
import signal
import sys
import threading


class Terminated(SystemExit):
    """SIGTERM came."""


class Termination:
    """What SIGTERM does, where nobody else handles it; else nothing changes."""

    def __init__(self):
        self._is_ours, self.has_come = False, False

    def begin(self) -> None:
        """It raises Terminated."""
        self._is_ours = (threading.current_thread() is threading.main_thread()
                         and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
        self._set(_raise_terminated)

    def hold(self) -> None:
        """It sets ``has_come``, and no more: the training is ending."""
        def note(number, frame):
            self.has_come = True

        self._set(note)

    def end(self, text: str = "") -> None:
        """It ends the process; with ``text`` on the standard error until an exception that nobody
        catches has been printed, which has the text."""
        if not text:
            self._set(signal.SIG_DFL)
            return

        def tell(number, frame):
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
            os._exit(128 + number)

        self._set(tell)
        before = sys.excepthook

        def printed(*exception):
            before(*exception)
            self._set(signal.SIG_DFL)

        if self._is_ours:
            sys.excepthook = printed

    def _set(self, handler) -> None:
        if self._is_ours:
            signal.signal(signal.SIGTERM, handler)


def _raise_terminated(number, frame):
    raise Terminated(128 + number)
