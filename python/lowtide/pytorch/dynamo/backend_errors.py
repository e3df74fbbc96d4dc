"""Passes Lowtide's errors through Dynamo to the user unwrapped."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch._dynamo.exc import ShortenTraceback

from ... import Error


def with_own_errors(backend: Callable) -> Callable:
    """A backend whose errors reach whoever called the compiled model: an InfeasibleError can be
    caught as such, and that a device has no memory left. Dynamo wraps all others that a backend
    raises in BackendCompilerFailed."""
    @functools.wraps(backend)
    def run(*arguments, **named):
        try:
            return backend(*arguments, **named)
        except (Error, torch.OutOfMemoryError) as error:
            raise _passed_through(error) from None

    return run


class _PassedThrough(ShortenTraceback):
    """Dynamo lets it through, and adds to it what it was at work on; users get it without that."""

    def remove_dynamo_frames(self):
        self.__dict__.pop("_torch_dynamo_tracer_output", None)
        self.args = self.arguments
        return self.with_traceback(None)


def _passed_through(error: Exception) -> Exception:
    """An equal error of a class that Dynamo lets through."""
    if isinstance(error, _PassedThrough):
        return error
    kind = type(error)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    found = Exception.__new__(type(kind.__qualname__, (kind, _PassedThrough), names))
    found.__dict__.update(error.__dict__)
    found.args = found.arguments = error.args
    return found
