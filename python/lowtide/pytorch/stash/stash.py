"""A value of a joint graph that can be held in fewer bits, and by which ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Generic, TypeVar

import torch
from torch import fx

#: Values of fewer bytes stay as they are.
_LEAST_BYTES = 4096

#: Adds a call to a graph and returns its result, or results (``joint_graph.calls``).
Run = Callable


@dataclasses.dataclass(frozen=True)
class Form:
    """How a value is held. ``hold(run, value)`` adds the ops that make the tensors to hold;
    ``widen(run, held, like)`` those that make the value of them, laid out as ``like``.
    ``held_bytes``: what is held of a value. ``name``: of what is held, for reports.
    """

    name: str
    is_exact: bool
    hold: Callable[[Run, fx.Node], Sequence[fx.Node]]
    widen: Callable[[Run, Sequence[fx.Node], torch.Tensor], fx.Node]
    held_bytes: Callable[[torch.Tensor], int]


@dataclasses.dataclass(frozen=True)
class Passing:
    """An op of the backward pass that reads of the value only whether it is at most ``low``, and
    passes the gradient on where it is not."""

    reader: fx.Node
    low: float


@dataclasses.dataclass(frozen=True)
class Stash:
    """``form``: of the value as ``read`` reads it, pairs of an op of the backward pass and the view
    of the value, or itself, that it reads. ``passing`` reads bits instead, and ``shaped``, such
    pairs too, nothing but the shape.
    """

    value: fx.Node
    form: Form | None
    read: tuple[tuple[fx.Node, fx.Node], ...]
    passing: tuple[Passing, ...]
    shaped: tuple[tuple[fx.Node, fx.Node], ...]

    @property
    def is_exact(self) -> bool:
        return self.form is None or self.form.is_exact

    @property
    def name(self) -> str:
        return self.value.name

    @property
    def form_name(self) -> str:
        """Of what is held; bits say which elements pass a gradient on."""
        names = [self.form.name] if self.form else []
        return " and ".join([*names, "bits"] if self.passing and names != ["bits"] else names
                            ) or "shape"

    @property
    def whole_bytes(self) -> int:
        return self.value.meta["val"].untyped_storage().nbytes()

    @property
    def held_bytes(self) -> int:
        value = self.value.meta["val"]
        bounds = {passing.low for passing in self.passing}
        return (self.form.held_bytes(value) if self.form else 0) + len(bounds) * bits_bytes(value)


def of_use(stashes: Iterable[Stash]) -> tuple[Stash, ...]:
    """Those of values that are large enough, and take fewer bytes so."""
    return tuple(stash for stash in stashes
                 if stash.whole_bytes >= _LEAST_BYTES and stash.held_bytes < stash.whole_bytes)


Captured = TypeVar("Captured")


@dataclasses.dataclass(frozen=True)
class Stashes(Generic[Captured]):
    """Those of a joint graph. ``capture``: the graph with some of them. ``possible``: also those
    that are of no use at the sizes of this graph, but at others of its range."""

    possible: tuple[Stash, ...]
    capture: Callable[[Sequence[Stash]], Captured]
    _known: dict[frozenset[str], Captured] = dataclasses.field(default_factory=dict)

    def captured_with(self, chosen: Sequence[Stash]) -> Captured:
        """The graph with these. It is captured once, as each change of a budget compares anew."""
        names = frozenset(stash.name for stash in chosen)
        if names not in self._known:
            self._known[names] = self.capture(chosen)
        return self._known[names]

    def named(self, names: Collection[str]) -> tuple[Stash, ...]:
        return tuple(stash for stash in self.possible if stash.name in names)

    def only(self, names: Collection[str]) -> Stashes[Captured]:
        return Stashes(self.named(names), self.capture)

    @property
    def found(self) -> tuple[Stash, ...]:
        return of_use(self.possible)

    @property
    def exact(self) -> tuple[Stash, ...]:
        return tuple(stash for stash in self.found if stash.is_exact)


def bits_bytes(value: torch.Tensor) -> int:
    """One bit for each element."""
    return -(-value.numel() // 8)
