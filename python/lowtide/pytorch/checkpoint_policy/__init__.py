"""Plans for PyTorch's own means of saving memory: checkpointing and Inductor's partitioner."""

from .policy import selective_checkpoint_policy
from .solver import memory_budget_solver

__all__ = ["memory_budget_solver", "selective_checkpoint_policy"]
