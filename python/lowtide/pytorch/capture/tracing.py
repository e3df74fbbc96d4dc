"""How models are traced when they are captured."""

import logging
import warnings

import torch

#: Libraries add methods to Logger, such as warning_once.
_LOG_METHODS = ("debug", "info", "warning", "warning_once", "error", "exception", "critical", "log")


def tracing_settings():
    """A context with Dynamo's settings: errors end the tracing, recurrent layers are traced
    through, and what is only printed or logged is left out."""
    methods = {getattr(logging.Logger, method, None) for method in _LOG_METHODS} - {None}
    return torch._dynamo.config.patch(
        suppress_errors=False, allow_rnn=True,
        ignore_logging_functions={print, warnings.warn, *methods})
