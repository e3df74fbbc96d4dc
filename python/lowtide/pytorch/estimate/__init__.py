"""The memory of a training step of eager PyTorch, before it runs."""

from .estimate import estimate_model

__all__ = ["estimate_model"]
