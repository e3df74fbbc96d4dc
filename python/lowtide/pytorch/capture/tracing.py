"""How models are traced when they are captured."""

import contextlib
import logging
import warnings
from collections.abc import Iterator

import torch

#: Libraries add methods to Logger, such as warning_once.
_LOG_METHODS = ("debug", "info", "info_once", "warning", "warning_once", "error", "exception",
                "critical", "log")


def logging_functions() -> set:
    """The functions of which a program expects nothing but that they log, as far as there are."""
    return {getattr(logging.Logger, method, None) for method in _LOG_METHODS} - {None}


def tracing_settings():
    """A context with Dynamo's settings: errors end the tracing, recurrent layers and gradients
    within the forward pass are traced through, what is only printed or logged is left out, and ops
    are those of eager PyTorch: Dynamo's decompositions of some round otherwise."""
    return torch._dynamo.config.patch(
        suppress_errors=False, allow_rnn=True, trace_autograd_ops=True,
        enable_dynamo_decompositions=False,
        ignore_logging_functions={print, warnings.warn, *logging_functions()})


@contextlib.contextmanager
def each_warning_once() -> Iterator[None]:
    """PyTorch's tracers run the code of a model several times, and warn of it each time."""
    shown = set()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_once(message, *where):
            if str(message) not in shown:
                shown.add(str(message))
                show(message, *where)

        warnings.showwarning = show_once
        yield
