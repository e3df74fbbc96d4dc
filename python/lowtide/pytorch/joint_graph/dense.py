"""How the elements of a tensor lie in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements fill one stretch of memory, in some order of the dimensions."""
    expected = 1
    for stride, size in sorted(zip(strides, shape)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return expected == math.prod(shape)
