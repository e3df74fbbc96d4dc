"""Linear ops on parts of sums: what they make is a part of a sum too."""

from __future__ import annotations

import torch
from torch import fx

from .cut import Cut, KnownRows, Slicewise

_aten = torch.ops.aten


def _of_one(node: fx.Node, known: KnownRows) -> Cut | None:
    """Lays a part out otherwise, or multiplies it by a number."""
    given = node.all_input_nodes
    return Cut({given[0]: Slicewise.TOTAL}, Slicewise.TOTAL) if len(given) == 1 else None


def _in_other_precision(node: fx.Node, known: KnownRows) -> Cut | None:
    return _of_one(node, known) if node.meta["val"].is_floating_point() else None


def _sum(node: fx.Node, known: KnownRows) -> Cut | None:
    given = node.args[:2]
    return Cut(dict.fromkeys(given, Slicewise.TOTAL), Slicewise.TOTAL) if all(
        map(known.is_total, given)) else None


def is_of_no_use_alone(node: fx.Node) -> bool:
    """Whether it adds nothing up and rounds no finer: it may as well wait for the whole sum."""
    if node.target is _aten._to_copy.default:
        return node.meta["val"].element_size() <= node.args[0].meta["val"].element_size()
    return node.target in _LAYOUTS


_LAYOUTS = frozenset((_aten.t.default, _aten.view.default, _aten._unsafe_view.default,
                      _aten.permute.default, _aten.transpose.int, _aten.mul.Scalar,
                      _aten.neg.default))

RULES = {**dict.fromkeys(_LAYOUTS, _of_one), _aten._to_copy.default: _in_other_precision,
         _aten.add.Tensor: _sum, _aten.sub.Tensor: _sum}
