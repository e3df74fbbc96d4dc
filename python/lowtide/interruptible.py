"""Long work of the compiled parts that Ctrl-C can stop."""

from __future__ import annotations

import threading


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
