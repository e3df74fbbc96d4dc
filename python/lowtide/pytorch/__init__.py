"""PyTorch models within a budget of bytes. Needs torch; ``import lowtide`` alone does not."""

from ..built_for import check_torch as _check_torch

_check_torch()
