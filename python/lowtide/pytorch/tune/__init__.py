"""Which of the ways to need less memory to choose, for a model and a budget."""

from .deepspeed import Adopted, from_deepspeed
from .tune import tune
from .tuned import Tuned

__all__ = ["Adopted", "Tuned", "from_deepspeed", "tune"]
