"""Arguments of an FX node as the graph format writes them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import torch

from ... import InputError
from .captured import Output
from .dtypes import NAMES
from .user_line import at_user_line

#: How the kernels number memory formats.
_MEMORY_FORMATS = {torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2,
                   torch.channels_last_3d: 3}
#: How schemas number dtypes in their defaults.
_DEFAULT_DTYPES = {4: "i64", 6: "f32", 7: "f64", 11: "bool"}
#: Written as null: the runtime has one device, one layout and one generator.
_IMPLIED = (torch.device, torch.layout, torch.Generator)

#: The tensors, numbers or lists of them that an argument of a node stands for.
Resolve = Callable[[torch.fx.Node], object]


@dataclasses.dataclass(frozen=True)
class Arguments:
    inputs: list[int]  # tensor ids, one for each tensor argument
    args: list[object]  # as the format writes them, one for each argument of the schema


def schema_arguments(node: torch.fx.Node, given: Sequence[object], resolve: Resolve) -> Arguments:
    """All arguments of a call of an OpOverload, defaults filled in.

    ``given``: the positional arguments, or what is to stand for them. A number for a tensor, as in
    ``mul.Tensor(x, 0.5)``, is written as it is: the kernel wraps it. Raises InputError for an
    argument that the format cannot write.
    """
    reader = _Reader(node, resolve)
    args = []
    for index, argument in enumerate(node.target._schema.arguments):
        if index < len(given):
            value = given[index]
        else:
            value = node.kwargs.get(argument.name, argument.default_value)
        args.append(reader.write(value, argument))
    return Arguments(reader.inputs, args)


class _Reader:
    """Writes the arguments of one node and collects the tensors among them."""

    def __init__(self, node, resolve):
        self.node, self.resolve, self.inputs = node, resolve, []

    def write(self, value, argument):
        value = self._resolved(value)
        if value is None or isinstance(value, _IMPLIED):
            return None
        if isinstance(value, Output):
            return {"tensor": self._position(value)}
        if isinstance(value, (list, tuple)):
            return self._list(value, argument)
        return self._scalar(value, argument)

    def _resolved(self, value):
        """What a node stands for; literals out of their wrapping."""
        if isinstance(value, torch.fx.Node):
            value = self.resolve(value)
        if isinstance(value, Output) and value.tensor is None:
            return value.literal
        return value

    def _position(self, output):
        self.inputs.append(output.tensor)
        return len(self.inputs) - 1

    def _list(self, values, argument):
        items = [self._resolved(value) for value in values]
        kind = str(argument.real_type)
        if "Tensor" in kind:
            return {"tensors": [None if item is None else self._position(item)
                                for item in items]}
        if "float" in kind:
            return {"floats": [_number(float(item)) for item in items]}
        if all(isinstance(item, int) for item in items):
            return [int(item) for item in items]
        self._refuse(argument, items)

    def _scalar(self, value, argument):
        if isinstance(value, int) and "ScalarType" in str(argument.real_type):
            return {"dtype": _DEFAULT_DTYPES[value]}
        if isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return float_argument(value)
        if isinstance(value, complex):
            return {"complex": [_number(value.real), _number(value.imag)]}
        if isinstance(value, torch.memory_format):
            return _MEMORY_FORMATS[value]
        if isinstance(value, torch.dtype) and value in NAMES:
            return {"dtype": NAMES[value]}
        self._refuse(argument, value)

    def _refuse(self, argument, value):
        symbolic = isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) or (
            isinstance(value, list) and any(isinstance(item, torch.SymInt) for item in value))
        hint = (" Shapes must be known: compile with dynamic=False, and let no size depend on data."
                if symbolic else "")
        raise InputError(
            f"{self.node.target} is called with {argument.name} = {value!r}, which a graph file "
            f"cannot hold{at_user_line(self.node)}.{hint}")


def float_argument(value: float) -> object:
    return value if math.isfinite(value) else {"float": _number(value)}


def _number(value):
    return value if math.isfinite(value) else str(value)

