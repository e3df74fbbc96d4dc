"""The open sizes of a graph that Dynamo traced: symbols, what they may be, and what a call has."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.printers import PythonPrinter

from .size_ranges import SizeRange, all_sizes

#: By symbol: its size.
Sizes = Mapping[sympy.Symbol, int]


class OpenSizes:
    """``inputs``: fake tensors and numbers of a graph, as Dynamo traced it, when all that traces
    what is made of them is done: then it is known which symbols are equal, and for which sizes the
    graph holds. ``ranges``: by position of an input and dimension, the range of its size."""

    def __init__(self, inputs: Sequence, ranges: Mapping[tuple[int, int], SizeRange]):
        self._places: list[tuple[int, int | None, sympy.Symbol]] = []
        self._environment: ShapeEnv | None = None
        self._range_of: dict[sympy.Symbol, SizeRange] = {}
        for position, value in enumerate(inputs):
            for dimension, size in _open(value):
                self._environment = size.node.shape_env
                if isinstance(size.node.expr, sympy.Symbol):
                    self._places.append((position, dimension, size.node.expr))
                    if dimension is not None and (position, dimension) in ranges:
                        self._range_of[size.node.expr] = ranges[position, dimension]

    @property
    def are_in_ranges(self) -> bool:
        """Whether each symbol has a range."""
        return bool(self._places) and all(symbol in self._range_of
                                          for _, _, symbol in self._places)

    @property
    def ranges(self) -> list[SizeRange]:
        return list(dict.fromkeys(self._range_of.values()))

    def covered(self) -> list[Sizes]:
        """All sizes of the ranges for which the graph holds, smallest first."""
        holds = [self.function(guard) for guard in self._guards]
        found = [self.at(named) for named in all_sizes(self.ranges)]
        bounds = self._bounds
        return [sizes for sizes in found
                if all(least <= sizes[symbol] <= most
                       for symbol, (least, most) in bounds.items())
                and all(hold(*sizes.values()) for hold in holds)]

    def at(self, named: Mapping[str, int]) -> Sizes:
        """By the names of the ranges."""
        return {symbol: named[self._range_of[symbol].name] for symbol in self._symbols}

    def names(self, sizes: Sizes) -> dict[str, int]:
        """The same by the names of the ranges."""
        return {self._range_of[symbol].name: size for symbol, size in sizes.items()}

    def of_call(self, given: Sequence) -> Sizes:
        """``given``: what the graph is called with, in the order of the inputs."""
        found = {symbol: given[position] if dimension is None else given[position].shape[dimension]
                 for position, dimension, symbol in self._places}
        return {symbol: found[symbol] for symbol in self._symbols}

    def function(self, expression: sympy.Expr) -> Callable[..., Any]:
        """Of the sizes in their order."""
        names = [str(symbol) for symbol in self._symbols]
        if any(symbol not in self._symbols for symbol in expression.free_symbols):
            raise ValueError(f"{expression} depends on more than {', '.join(names)}")
        text = PythonPrinter().doprint(expression)
        return eval(f"lambda {', '.join(names)}: {text}", {"math": math})  # of our own making

    @property
    def _symbols(self) -> list[sympy.Symbol]:
        return list(dict.fromkeys(symbol for _, _, symbol in self._places))

    @property
    def _guards(self) -> list[sympy.Expr]:
        """In terms of the symbols that are left."""
        known = self._environment
        return [] if known is None else [known.replace(guard.expr) for guard in known.guards]

    @property
    def _bounds(self) -> dict[sympy.Symbol, tuple[Any, Any]]:
        known = {} if self._environment is None else self._environment.var_to_range
        return {symbol: (known[symbol].lower, known[symbol].upper) for symbol in self._symbols}


def _open(value: object) -> Iterator[tuple[int | None, torch.SymInt]]:
    """The open sizes of an input, by its dimension; None of a number."""
    if isinstance(value, torch.SymInt):
        yield None, value
    elif isinstance(value, torch.Tensor):
        for dimension, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt):
                yield dimension, size
