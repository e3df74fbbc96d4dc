"""How long arithmetic and traffic take: a roofline.

Products and convolutions that are not measured take the longer of computing and moving their bytes,
at rates whose ratio is that of common processors and accelerators. Pointwise arithmetic comes on
top: a value that is neither read nor written still takes the time of its exponential, or of its
random number.
"""

from __future__ import annotations

from torch import fx

from ...capture.arithmetic import flops
from ...joint_graph.views import is_view
from .nodes import node_bytes

FLOPS_PER_US = 1e5
BYTES_PER_US = 1e4

#: Operations for an element, by the name of the op: of a series or a division...
_SLOW_OPS = 30
_SLOW = {"acos", "asin", "atan", "cos", "cosh", "erf", "erfc", "exp", "expm1", "gelu",
         "gelu_backward", "log", "log1p", "log2", "pow", "rsqrt", "sigmoid", "silu", "sin", "sinh",
         "softplus", "sqrt", "tan", "tanh", "div", "reciprocal"}
#: ... of a random number, which is computed alone, not in vectors, on processors...
_RANDOM_OPS = 1200
_RANDOM = {"inductor_random", "inductor_randint", "rand", "randn", "native_dropout", "bernoulli"}
#: ... and of all else.
_PLAIN_OPS = 1


def microseconds(products: float, moved_bytes: float, pointwise: float) -> float:
    """Of one kernel: operations of products, bytes that it reads and writes, and operations on
    elements."""
    return max(products / FLOPS_PER_US, moved_bytes / BYTES_PER_US) + pointwise / FLOPS_PER_US


def pointwise_operations(node: fx.Node) -> int:
    """Operations of what is computed element by element, or reduced; 0 for products and views."""
    if node.op != "call_function" or is_view(node) or flops(node) is not None:
        return 0
    return _elements(node) * _of_an_element(node)


def _elements(node):
    """Of the larger of what is made and what is read: a reduction looks at all of it."""
    return max([node_bytes(node), *map(node_bytes, node.all_input_nodes)]) // 4


def _of_an_element(node):
    packet = getattr(node.target, "overloadpacket", None)
    name = getattr(packet, "__name__", "")
    if name in _RANDOM:
        return _RANDOM_OPS
    return _SLOW_OPS if name in _SLOW else _PLAIN_OPS
