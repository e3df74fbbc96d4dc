"""PyTorch's own compiler within a budget: forward and backward graphs that Inductor compiles."""

from .backend import backend
from .choice import Choice
from .fit import Fitted, compile_within
from .partition import PlannedPartition
from .split import split

__all__ = ["Choice", "Fitted", "PlannedPartition", "backend", "compile_within", "split"]
