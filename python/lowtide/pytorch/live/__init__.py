"""A page that shows the training of a wrapped module while it runs."""

from .live import Live, live

__all__ = ["Live", "live"]
