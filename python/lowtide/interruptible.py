"""Work that Ctrl-C stops, and work that Ctrl-C waits for."""

from __future__ import annotations

import atexit
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

#: Work that is done in compiled modules: what is set when it is over, and the module, which can be
#: asked to stop.
_IN_COMPILED_CODE: dict[threading.Event, Any] = {}

#: Seconds between two requests to stop, as another thread may take one back.
_ASK_AGAIN = 0.1


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C within this block is heard at its end."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not in_main_thread or before is None:  # None: a handler of C, which cannot be put back
        yield
        return
    heard = []
    signal.signal(signal.SIGINT, lambda *of: heard.append(of))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def no_interrupt_lost() -> Iterator[None]:
    """An interrupt within this block ends it, at its end at the latest, and is raised as it is.
    Python drops one that comes while it runs a weak reference's callback or a finalizer: PyTorch's
    tracers run many of them. Others make an error of it, as an executor does of what an op raises.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not in_main_thread or not callable(before):
        yield
        return
    raised: list[BaseException] = []

    def handle(*of):
        try:
            before(*of)
        except BaseException as error:
            raised.append(error)
            raise

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    except Exception:
        if not raised:
            raise
    finally:
        if signal.getsignal(signal.SIGINT) is handle:
            signal.signal(signal.SIGINT, before)
    if raised:
        interrupt = raised[0].with_traceback(None)
        raised.clear()
        try:
            raise interrupt
        finally:
            del interrupt  # it would keep this frame


def in_background(work: Callable[[], object], compiled, name: str) -> threading.Event:
    """Starts a thread of this name that does the work in the module ``compiled``; returns what is
    set when it is over. A program that ends waits for it. Where Ctrl-C ends that wait, the work is
    asked to stop: it then raises StoppedError, or returns what it has."""
    # Not Thread.join(): interrupted, it takes a thread that goes on for one that has ended
    # (https://github.com/python/cpython/issues/90882).
    over = threading.Event()

    def run() -> None:
        try:
            work()
        finally:
            del _IN_COMPILED_CODE[over]
            over.set()

    _IN_COMPILED_CODE[over] = compiled
    try:
        threading.Thread(target=run, name=name).start()
    except BaseException:  # the system has no thread left; nothing is to be waited for
        del _IN_COMPILED_CODE[over]
        raise
    return over


@atexit.register
def _leave_compiled_code() -> None:
    """Python ends a thread that comes back to it late by unwinding its stack, which is fatal in
    compiled code."""
    for over, compiled in list(_IN_COMPILED_CODE.items()):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while not over.wait(_ASK_AGAIN):
            compiled.request_stop()


def interruptible(work, compiled):
    """Runs work() in a thread, so that this one, which alone hears of Ctrl-C, can stop it.

    ``compiled`` is the module that does the work and can be asked to stop. Another thread than the
    main one never hears of Ctrl-C, and does the work itself.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    outcome = {}

    def run():
        try:
            outcome["result"] = work()
        except BaseException as error:  # handed on to the caller below
            outcome["error"] = error

    with uninterrupted():
        over = in_background(run, compiled, "lowtide")
    try:
        over.wait()
    except KeyboardInterrupt:
        with uninterrupted():
            compiled.request_stop()
            over.wait()
            compiled.clear_stop()
        raise
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]
