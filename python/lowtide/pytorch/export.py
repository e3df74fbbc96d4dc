"""Plans for PyTorch's own means of saving memory: checkpointing and Inductor's partitioner."""

from .checkpoint_policy import memory_budget_solver, selective_checkpoint_policy

__all__ = ["memory_budget_solver", "selective_checkpoint_policy"]
