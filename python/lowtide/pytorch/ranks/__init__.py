"""Training on many ranks: collectives, their costs, faults of ranks, and sharded checkpoints.

A *rank* is one of the processes of a training. PyTorch's process groups carry everything: Gloo
between CPUs, NCCL between GPUs.
"""

from .checkpointer import Checkpointer
from .communication_costs import CommunicationCosts
from .communicator import Communicator
from .errors import RankError
from .watchdog import Watchdog

__all__ = ["Checkpointer", "CommunicationCosts", "Communicator", "RankError", "Watchdog"]
