"""Sums of what slices add up, such as the gradient of a parameter that is used several times."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Mapping, Sequence

import torch
from torch import fx

from .rules.cut import Cut, Slicewise

_aten = torch.ops.aten
_LAYOUTS = frozenset((_aten.t.default, _aten.view.default, _aten._unsafe_view.default,
                      _aten.permute.default, _aten.transpose.int, _aten.detach.default,
                      _aten.alias.default))


@dataclasses.dataclass
class Sums:
    """``of_part``: by op whose slices make a part of it, the sum. ``within``: the sums, and what
    stands between them and the ops: nothing is left to be done there."""

    of_part: dict[fx.Node, fx.Node] = dataclasses.field(default_factory=dict)
    within: set[fx.Node] = dataclasses.field(default_factory=set)


def sums_of_parts(nodes: Sequence[fx.Node], cuts: Mapping[fx.Node, Cut],
                  is_read_in_parts: Callable[[fx.Node], bool]) -> Sums:
    """The sums that each slice of each op can add its part to. One tensor is then alive, where
    there would be one for each op, and another for the part that is added."""
    sums = Sums()
    for node in reversed(nodes):
        if _adds(node, cuts) and node not in sums.within and not is_read_in_parts(node):
            _add_sum(sums, node, cuts)
    return sums


def _adds(node: fx.Node, cuts: Container[fx.Node]) -> bool:
    return (node in cuts and node.target is _aten.add.Tensor and not node.kwargs
            and node.args[0] is not node.args[1])


def _add_sum(sums: Sums, total: fx.Node, cuts: Mapping[fx.Node, Cut]) -> None:
    parts, within, to_do = [], {total}, list(total.args)
    while to_do:
        operand = to_do.pop()
        if not isinstance(operand, fx.Node) or not _lies_alike(operand, total):
            return
        part, between = _made_by(operand, cuts)
        within.update(between)
        if len(part.users) != 1 or not _lies_alike(part, total):
            return
        if _adds(part, cuts):
            within.add(part)
            to_do += part.args
        elif _is_made_by_slices(cuts.get(part)):
            parts.append(part)
        else:
            return
    sums.of_part.update(dict.fromkeys(parts, total))
    sums.within |= within


def _made_by(node: fx.Node, cuts: Container[fx.Node]) -> tuple[fx.Node, list[fx.Node]]:
    """The op behind ops that lay its result out otherwise, and these."""
    between = []
    while node in cuts and node.target in _LAYOUTS and len(node.users) == 1:
        between.append(node)
        node = node.args[0]
    return node, between


def _is_made_by_slices(cut: Cut | None) -> bool:
    return (cut is not None and cut.made is Slicewise.TOTAL and cut.finish is None
            and Slicewise.TOTAL not in cut.reads.values())


def _lies_alike(node: fx.Node, other: fx.Node) -> bool:
    a, b = node.meta["val"], other.meta["val"]
    return (isinstance(a, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape
            and a.stride() == b.stride())
