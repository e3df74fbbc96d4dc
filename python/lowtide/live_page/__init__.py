"""A page on this machine that shows a training while it runs."""

from .running_training import RunningTraining
from .server import Server

__all__ = ["RunningTraining", "Server"]
