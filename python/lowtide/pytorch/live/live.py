"""Shows the training of a wrapped module in a browser, as long as it runs."""

from __future__ import annotations

import numbers
import weakref
from typing import TYPE_CHECKING

import torch

from ... import InputError
from ...arguments import checked_count
from ...live_page import RunningTraining, Server
from ..metrics import figures_of
from ..planned_class import session_of

if TYPE_CHECKING:
    from ..autograd.session import Session
    from ..inductor.mode import InductorMode

_HIGHEST_PORT = 65535


def live(model: torch.nn.Module, port: int = 0) -> Live:
    """Serves a page on this machine that shows a training while it runs: the planned and the
    measured peak, how many passes there are in a second, and what ``step`` is given.

    ``model``: a module that ``wrap`` returned. ``port``: 0 for a free one. The page is at ``url``
    of what is returned, on 127.0.0.1 alone. It ends with ``close()``, with the ``with`` block, with
    the model, or with the process. Where Inductor compiles, the planned peak is the one that is
    expected of its code. Raises InputError for a module that is not wrapped.
    """
    return Live(model, session_of(model), checked_count("port", port, 0, _HIGHEST_PORT))


class Live:
    """``url``: of the page."""

    def __init__(self, model: torch.nn.Module, session: Session | InductorMode, port: int):
        self._training = RunningTraining(session.name)
        self._watched = _Watched(session, self._training)
        server = self._server = Server(port, self._training.document)
        self.url = server.url
        session.observers.append(self._watched)
        # A thread that ends with the process is no reason to hold it up.
        weakref.finalize(model, server.end).atexit = False

    def step(self, **values: float) -> None:
        """A step of the training is over; ``values``: such as ``loss=loss.item()``, a curve for
        each name."""
        self._training.note_step({name: _number(name, value) for name, value in values.items()})

    def close(self) -> None:
        """Nothing listens any more. Does nothing the second time."""
        self._watched.end()
        self._server.end()
        self._server.join()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lowtide.Live at {self.url}>"


class _Watched:
    """Is called where a step of the session begins."""

    def __init__(self, session: Session | InductorMode, training: RunningTraining):
        self._session, self._training = weakref.ref(session), training
        if session.has_plans:
            training.show(figures_of(session))

    def __call__(self) -> None:
        session = self._session()
        if session is None:
            return
        found = figures_of(session)
        if "peak_bytes" in found:  # otherwise this is the first step
            self._training.note_pass(found)
        else:
            self._training.show(found)

    def end(self) -> None:
        session = self._session()
        if session is not None and self in session.observers:
            session.observers.remove(self)


def _number(name: str, value) -> float:
    """Of a tensor too, though its value may have to be waited for."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return float(value.detach())
    if isinstance(value, numbers.Real):
        return float(value)
    raise InputError(f"{name} must be a number, not {value!r}: give loss.item(), for example")
