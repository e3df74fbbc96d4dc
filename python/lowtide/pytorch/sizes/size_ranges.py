"""Which dimensions of a model's inputs are open, and between which sizes."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ... import InputError
from ..common.notices import Notices

#: PyTorch's traces treat the sizes 0 and 1 apart: those have a graph of their own.
_LEAST_OPEN = 2

#: Each is looked at before the first step.
_MOST_SIZES = 100_000

#: By the name of the range: the size.
NamedSizes = frozenset[tuple[str, int]]


@dataclasses.dataclass(frozen=True)
class SizeRange:
    """One open dimension, from ``least`` to ``most``. ``places``: the inputs and the dimensions of
    them that have this size."""

    name: str
    least: int
    most: int
    places: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return f"{self.name} from {self.least} to {self.most}"


def all_sizes(ranges: Sequence[SizeRange]) -> Iterator[dict[str, int]]:
    """Each combination of sizes in the ranges, by their names."""
    for sizes in itertools.product(*(range(each.least, each.most + 1) for each in ranges)):
        yield dict(zip((each.name for each in ranges), sizes))


def sizes_text(sizes: Mapping[str, int]) -> str:
    """By the names of ranges, for messages."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


class SizeRanges:
    """Those of a model, as ``dynamic_shapes`` of ``lowtide.wrap`` says them."""

    def __init__(self, ranges: Sequence[SizeRange], positional: Sequence[str], model: str):
        self._ranges, self._positional, self._model = tuple(ranges), tuple(positional), model
        self._notices = Notices()
        self._has_begun = False
        self._marked: list[tuple[torch.Tensor, int, SizeRange]] = []
        self._present: dict[str, int] = {}  # the sizes of the call that is marked
        self._covered: set[NamedSizes] = set()
        self._given_up = False

    @staticmethod
    def parse(dynamic_shapes: object, forward: Callable, model: str) -> SizeRanges | None:
        """``dynamic_shapes``: as ``torch.export.export`` takes it, by the names of the arguments of
        ``forward`` or in their order; of each, a dict of dimensions or a sequence of them, with a
        ``torch.export.Dim`` of a least and a largest size for each that is open. None: nothing is.

        Raises InputError for an input that does not exist, and for a range without an end.
        """
        if dynamic_shapes is None:
            return None
        parameters = inspect.signature(forward).parameters
        positional = [name for name, parameter in parameters.items()
                      if parameter.kind in (parameter.POSITIONAL_ONLY,
                                            parameter.POSITIONAL_OR_KEYWORD)]
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD
                        for parameter in parameters.values())
        given = _by_name(dynamic_shapes, positional)
        for name in given:
            if name not in parameters and not takes_any:
                raise InputError(f"dynamic_shapes names an input {name!r}, and forward of {model} "
                                 f"has {', '.join(parameters) or 'none'}")
        dims = [(dim, name, position) for name, shape in given.items()
                for position, dim in _open_dimensions(name, shape)]
        if not dims:
            raise InputError("dynamic_shapes leaves no dimension open: give a "
                             "torch.export.Dim(name, min=..., max=...) for each that varies, or "
                             "leave dynamic_shapes out")
        return SizeRanges(_ranges(dims), positional, model)

    @contextlib.contextmanager
    def marked(self, arguments: Sequence, named: Mapping, must_stay_open: bool = False
               ) -> Iterator[None]:
        """While it lasts, Dynamo knows which dimensions of a call's inputs are open. Of a call with
        a size outside of the ranges none is: it warns once, or raises InputError where it is the
        first call, as then there is nothing to plan the ranges by. Raises InputError for what has
        no such dimension. ``must_stay_open``: for what Dynamo is to raise an error where it finds
        that a size has one value."""
        self._mark({**dict(zip(self._positional, arguments)), **named}, must_stay_open)
        try:
            yield
        finally:
            self._marked.clear()
            self._present.clear()

    def of_inputs(self, inputs: Sequence) -> dict[tuple[int, int], SizeRange]:
        """By position among these inputs and dimension: the ranges of the call that is marked."""
        return {(position, dimension): size_range
                for position, value in enumerate(inputs)
                for tensor, dimension, size_range in self._marked if tensor is value}

    def cover(self, sizes: Iterable[Mapping[str, int]]) -> None:
        """Calls of these sizes, by the names of the ranges, are planned; of a range that is left
        out, the size of the call under way alone."""
        self._covered |= {_named({**self._present, **each}) for each in sizes}

    def give_up(self, why: str) -> None:
        """The ranges cannot be planned as a whole."""
        if not self._given_up:
            self._given_up = True
            self._notices.warn_once(
                "given up", f"of the sizes of dynamic_shapes only the largest is planned before "
                            f"the first step, and the others are when they come: {why}")

    def largest_uncovered(self) -> dict[str, int] | None:
        """The largest sizes that no plan is known for; None where there are none, or where no more
        are to be planned."""
        if self._given_up:
            return None
        left = (sizes for sizes in all_sizes(self._ranges) if _named(sizes) not in self._covered)
        return max(left, key=lambda sizes: math.prod(sizes.values()), default=None)

    def resized(self, arguments: Sequence, named: Mapping,
                sizes: Mapping[str, int]) -> tuple[tuple, dict]:
        """The inputs of a call with other sizes: their elements, repeated."""
        given = {**dict(zip(self._positional, arguments)), **named}
        for each in self._ranges:
            for name, dimension in each.places:
                if given.get(name) is not None:
                    given[name] = _with_size(given[name], dimension, sizes[each.name])
        positional = [given.pop(name) for name, _ in zip(self._positional, arguments)]
        return (*positional, *arguments[len(positional):]), given

    def _mark(self, given: Mapping, must_stay_open: bool) -> None:
        sizes = [(size_range, self._size(size_range, given)) for size_range in self._ranges]
        outside = [f"{size_range.name}={size}" for size_range, size in sizes
                   if size is not None and not size_range.least <= size <= size_range.most]
        if outside:
            self._say_outside(", ".join(outside))
            return
        self._present = {size_range.name: size for size_range, size in sizes if size is not None}
        if self._present:
            self._has_begun = True
        for size_range, size in sizes:
            for name, dimension in size_range.places if size is not None else ():
                if given.get(name) is not None and size >= _LEAST_OPEN:
                    # In both ways: Dynamo guards on the weaker mark.
                    torch._dynamo.maybe_mark_dynamic(given[name], dimension)
                    if must_stay_open:
                        torch._dynamo.mark_dynamic(given[name], dimension)
                    self._marked.append((given[name], dimension, size_range))

    def _size(self, size_range: SizeRange, given: Mapping) -> int | None:
        """Of a call; None where it has none of these inputs."""
        sizes = {(name, dimension): _size_of(given[name], name, dimension)
                 for name, dimension in size_range.places if given.get(name) is not None}
        if len(set(sizes.values())) > 1:
            found = ", ".join(f"{size} in dimension {dimension} of {name}"
                              for (name, dimension), size in sizes.items())
            raise InputError(f"{size_range.name} is one size in dynamic_shapes, and the inputs "
                             f"have {found}: give them the same size, or Dims of two names")
        return next(iter(sizes.values()), None)

    def _say_outside(self, outside: str) -> None:
        ranges = " and ".join(map(str, self._ranges))
        if not self._has_begun:
            raise InputError(f"the first input of {self._model} has {outside}, and dynamic_shapes "
                             f"is for {ranges}: begin with an input within it, or widen it")
        self._notices.warn_once(
            "outside", f"{self._model} was called with {outside}, and dynamic_shapes is for "
                       f"{ranges}: sizes outside of it are traced, measured and planned when they "
                       f"come. Widen it to have them planned before the first step")


def _by_name(dynamic_shapes: object, positional: Sequence[str]) -> dict[str, object]:
    if isinstance(dynamic_shapes, Mapping):
        return dict(dynamic_shapes)
    if not isinstance(dynamic_shapes, (tuple, list)):
        raise InputError(f"dynamic_shapes is a dict by the names of the inputs, or a sequence in "
                         f"their order, not {dynamic_shapes!r}")
    if len(dynamic_shapes) > len(positional):
        raise InputError(f"dynamic_shapes has {len(dynamic_shapes)} entries, and forward takes "
                         f"{len(positional)} inputs by position: {', '.join(positional)}")
    return dict(zip(positional, dynamic_shapes))


def _open_dimensions(name: str, shape: object) -> list[tuple[int, torch.export.Dim]]:
    if shape is None:
        return []
    if isinstance(shape, Mapping):
        dims = dict(shape)
    elif isinstance(shape, (tuple, list)):
        dims = dict(enumerate(shape))
    else:
        raise InputError(f"dynamic_shapes[{name!r}] is a dict of dimensions or a sequence of them, "
                         f"not {shape!r}")
    for position, dim in dims.items():
        if not isinstance(position, int) or position < 0:
            raise InputError(f"dynamic_shapes[{name!r}] has the dimension {position!r}: count them "
                             f"from 0")
        if dim is not None:
            _require_named_range(dim, f"dynamic_shapes[{name!r}][{position}]")
    return [(position, dim) for position, dim in dims.items() if dim is not None]


def _require_named_range(dim: Any, place: str) -> None:
    if type(dim) is not torch.export.Dim:
        raise InputError(f"{place} is {dim!r}: give a torch.export.Dim(name, min=..., max=...), or "
                         f"None for a size that stays")
    if not isinstance(dim.max, int):
        raise InputError(f"{place}, {dim.__name__}, has no largest size, for which the memory is "
                         f"to be planned: torch.export.Dim({dim.__name__!r}, max=...)")


def _ranges(dims: Sequence[tuple[torch.export.Dim, str, int]]) -> list[SizeRange]:
    """One for each name."""
    found: dict[str, SizeRange] = {}
    for dim, name, position in dims:
        known = found.get(dim.__name__)
        least = max(1, dim.min)
        if known is not None and (known.least, known.most) != (least, dim.max):
            raise InputError(f"two Dims of dynamic_shapes are called {dim.__name__} and have "
                             f"different ranges: {known}, and from {least} to {dim.max}")
        places = (*(known.places if known else ()), (name, position))
        found[dim.__name__] = SizeRange(dim.__name__, least, dim.max, places)
    count = math.prod(each.most - each.least + 1 for each in found.values())
    if count > _MOST_SIZES:
        raise InputError(f"dynamic_shapes spans {count} sizes, each of which is checked before the "
                         f"first step, and at most {_MOST_SIZES} can be: narrow the ranges")
    return list(found.values())


def _size_of(value: object, name: str, dimension: int) -> int:
    if not isinstance(value, torch.Tensor):
        raise InputError(f"dynamic_shapes leaves a size of {name} open, and the model was called "
                         f"with {type(value).__name__} for it: only sizes of tensors can be open")
    if dimension >= value.dim():
        raise InputError(f"dynamic_shapes leaves dimension {dimension} of {name} open, which has "
                         f"the shape {tuple(value.shape)}: count dimensions from 0")
    return value.shape[dimension]


def _named(sizes: Mapping[str, int]) -> NamedSizes:
    return frozenset(sizes.items())


def _with_size(value: torch.Tensor, dimension: int, size: int) -> torch.Tensor:
    """Another tensor with its elements repeated along a dimension, and dimensions in the same order
    in memory."""
    order = sorted(range(value.dim()), key=lambda other: -value.stride(other))
    shape = [size if other == dimension else value.shape[other] for other in range(value.dim())]
    found = torch.empty_permuted(shape, order, dtype=value.dtype, device=value.device)
    picked = torch.arange(size, device=value.device) % max(1, value.shape[dimension])
    torch.index_select(value.detach(), dimension, picked, out=found)
    return found.requires_grad_(value.requires_grad)
