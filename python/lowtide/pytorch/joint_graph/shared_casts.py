"""Casts of autocast: eager PyTorch makes one for all uses of a parameter, a trace one for each."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import torch
from torch import fx

from .calls import Calls
from .phases import split
from .primals import placeholders
from .views import is_view

_aten = torch.ops.aten
#: Methods by which a model casts a tensor itself, which autocast does not keep.
_OF_MODEL = {"to", "type", "type_as", "half", "bfloat16"}


def casts_are_shared(graph: fx.GraphModule) -> bool:
    """Whether autocast keeps its casts all the time while eager PyTorch runs ``graph``, of Dynamo,
    as it is called now. It forgets them where its outermost context ends."""
    torch.autocast_increment_nesting()
    depth = torch.autocast_decrement_nesting()
    outermost, kept = int(depth > 0), torch.is_autocast_cache_enabled()
    for node in graph.graph.nodes:
        if node.target is torch.amp.autocast_mode._enter_autocast:
            outermost += depth == 0
            depth += 1
            kept = kept and node.args[3] is not False
        elif node.target is torch.amp.autocast_mode._exit_autocast:
            depth -= 1
    return kept and outermost == 1


def share_casts(joint: fx.GraphModule, num_fwd_outputs: int, roles: Sequence[str]) -> None:
    """Has ``joint`` cast each parameter once, and add the gradients of its uses up in the lower
    precision. Where that cannot be told from the graph, it stays as it is.

    ``roles``: by primal.
    """
    forward, _ = split(joint, num_fwd_outputs)
    places = {node: place for place, node in enumerate(forward)}
    output, exchanged = joint.graph.output_node(), False
    for index, (primal, role) in enumerate(zip(placeholders(joint, "primals"), roles)):
        for casts in _casts_of(primal, places) if role == "parameter" else ():
            gradient = output.args[0][num_fwd_outputs + index]  # as it is after other types
            parts = _parts(gradient, casts)
            if len(parts) == len(casts):
                _add_narrow(joint, _Sum.of(gradient), parts)
                _exchange(joint, casts[1:], casts[0])
                exchanged = True
    if exchanged:
        joint.graph.eliminate_dead_code()
        joint.recompile()


def _casts_of(primal: fx.Node, places: Mapping[fx.Node, int]) -> list[list[fx.Node]]:
    """Those that autocast adds, by type, where there are several; in their order."""
    by_type = collections.defaultdict(list)
    for node in sorted(primal.users.keys() & places.keys(), key=places.__getitem__):
        [*_, (_, source)] = node.meta.get("source_fn_stack") or [(None, "to")]
        if (node.target is _aten._to_copy.default and node.kwargs.keys() == {"dtype"}
                and source not in _OF_MODEL):
            by_type[node.kwargs["dtype"]].append(node)
    return [casts for casts in by_type.values() if len(casts) > 1]


@dataclasses.dataclass(frozen=True)
class _Sum:
    """``parts[0] + parts[1]``, then ``parts[2]`` and so on: ``additions``, as autograd adds what
    the uses of a tensor give it."""

    parts: list[fx.Node]
    additions: list[fx.Node]

    @staticmethod
    def of(gradient: object) -> _Sum:
        parts, additions, node = [], [], gradient
        while (isinstance(node, fx.Node) and node.target is _aten.add.Tensor and not node.kwargs
               and all(isinstance(part, fx.Node) for part in node.args) and len(node.users) == 1):
            additions.append(node)
            node, part = node.args
            parts.append(part)
        return _Sum([node, *reversed(parts)], additions[::-1])


def _exchange(joint: fx.GraphModule, nodes: Sequence[fx.Node], by: fx.Node) -> None:
    """Has all that read ``nodes`` read ``by``, and views of them lie in its storage."""
    calls = Calls(joint, joint.graph)
    moved = {user for node in nodes for user in node.users if is_view(user)}
    for node in nodes:
        node.replace_all_uses_with(by)
    for node in joint.graph.nodes:
        if node in moved:
            calls.renew(node)
            moved.update(filter(is_view, node.users))


def _parts(gradient: object, casts: Sequence[fx.Node]) -> list[fx.Node]:
    """What the casts give the gradient: autograd numbers a node and its backward alike."""
    numbers = {cast.meta.get("seq_nr") for cast in casts}
    return [part for part in _Sum.of(gradient).parts
            if isinstance(part, fx.Node) and part.target is _aten._to_copy.default
            and len(part.users) == 1 and part.meta.get("seq_nr") in numbers]


def _add_narrow(joint: fx.GraphModule, total: _Sum, narrow: Sequence[fx.Node]) -> None:
    """Adds the arguments of the ``narrow`` parts first, and widens their sum where the last one of
    them comes."""
    calls = Calls(joint, joint.graph)
    wide = sum_of_narrow = None
    for part, place in zip(total.parts, [total.additions[0], *total.additions]):
        run = calls.instead_of(place, place.name)
        with joint.graph.inserting_before(place):
            if part in narrow:
                given = part.args[0]
                sum_of_narrow = given if sum_of_narrow is None else run(
                    _aten.add.Tensor, sum_of_narrow, given)
                if part is not narrow[-1]:
                    continue
                part = run(part.target, sum_of_narrow, **part.kwargs)
            wide = part if wide is None else run(_aten.add.Tensor, wide, part)
    total.additions[-1].replace_all_uses_with(wide)
