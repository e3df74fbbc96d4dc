"""Plans for PyTorch's own compiler: forward and backward graphs that Inductor compiles."""

from .backend import Fitted, backend, compile_within
from .partition import PlannedPartition
from .split import split

__all__ = ["Fitted", "PlannedPartition", "backend", "compile_within", "split"]
