"""Work that Ctrl-C stops, and work that Ctrl-C waits for."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


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

    thread = threading.Thread(target=run, name="lowtide")
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        compiled.request_stop()
        thread.join()
        compiled.clear_stop()
        raise
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]
