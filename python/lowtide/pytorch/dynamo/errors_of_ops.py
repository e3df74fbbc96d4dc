"""Errors of a model's own ops while it is traced, which the model may catch itself."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch._dynamo.exc import TorchRuntimeError

from ..autograd.session import Session
from ..capture.user_line import at_line_of_stack
from .unplanned import Unplanned


class ErrorsOfOps:
    """Leaves calls to PyTorch in which an op raises while they are traced: no trace knows what the
    model does next. As it runs, either the model catches the error, or the caller gets it as it is
    without a plan."""

    def __init__(self, session: Session, unplanned: Unplanned):
        self._session, self._unplanned = session, unplanned
        self._here = threading.local()

    def see(self, error: TorchRuntimeError) -> None:
        """What is traced in the call that is under way will run as it is."""
        if self._session.preparing:
            raise error
        self._session.evaluate()
        self._here.error = error

    @contextlib.contextmanager
    def of_call(self) -> Iterator[None]:
        """Around a call, which has no plan if the model caught such an error."""
        self._here.error = None
        yield
        if self._here.error is not None:
            self._unplanned.note(caught_by_model(self._here.error), "errors of ops")
            self._here.error = None


def caught_by_model(error: TorchRuntimeError) -> str:
    """Why a call has no plan in which the model caught an error of its op."""
    return (f"an op raised while the call was traced, and the model caught it"
            f"{at_line_of_stack(error.real_stack)}. A plan is for ops that are known before the "
            f"call: ask for the condition with an if, such as for a shape, instead of catching the "
            f"error")


def runs_as_it_is(run: Callable, arguments: Sequence, named: Mapping) -> bool:
    """Whether a call runs in which an op raised while it was traced. It runs without gradients,
    for which the values of all ops would be held."""
    try:
        with torch.no_grad():
            run(*arguments, **named)
    except Exception:
        return False
    return True
