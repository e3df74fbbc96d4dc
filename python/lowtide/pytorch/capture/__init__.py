"""Turns training steps written in PyTorch into lowtide graphs.

``capture`` takes a model; ``from_joint`` takes the joint graph of a ``partition_fn``.
"""

from .captured import BOUNDARY, Captured, Output
from .eager_kernels import eager_kernels, recurrent_kernels
from .joint import from_joint
from .model import capture
from .sources import describe_inputs, describe_primals
from .storages import storages_of

__all__ = ["BOUNDARY", "Captured", "Output", "capture", "describe_inputs", "describe_primals",
           "eager_kernels", "from_joint", "recurrent_kernels", "storages_of"]
