"""Training on many ranks: collectives, their costs, faults of ranks, and sharded checkpoints.

A *rank* is one of the processes of a training. PyTorch's process groups carry everything: Gloo
between CPUs, NCCL between GPUs.
"""

from ...lazy import lazily

__all__ = ["Checkpointer", "CommunicationCosts", "Communicator", "RankError", "Watchdog"]


__getattr__ = lazily(__name__, {  # collectives of plans need the errors alone
    "Checkpointer": ".checkpointer",
    "CommunicationCosts": ".communication_costs",
    "Communicator": ".communicator",
    "RankError": ".errors",
    "Watchdog": ".watchdog",
})
