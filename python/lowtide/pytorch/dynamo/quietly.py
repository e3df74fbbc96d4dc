"""Without what PyTorch's tracers say on their own behalf."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings

_CHATTY = ("torch._dynamo", "torch._functorch", "torch._guards", "torch._subclasses",
           "torch.fx.experimental")


@contextlib.contextmanager
def quietly():
    """What PyTorch's tracers log and warn of on their own behalf is left out, unless TORCH_LOGS
    asks for it: what concerns the user is said by us, or raised."""
    if os.environ.get("TORCH_LOGS"):
        yield
        return
    loggers = [logging.getLogger(name) for name in _CHATTY]
    levels = [logger.level for logger in loggers]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"torch\._(dynamo|functorch|subclasses)")
            for logger in loggers:
                logger.setLevel(logging.CRITICAL)
            yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)
