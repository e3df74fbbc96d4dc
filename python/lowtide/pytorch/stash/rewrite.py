"""A joint graph whose backward pass reads values that were held in fewer bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import fx

from ..joint_graph.calls import Calls
from .stash import Stash

_aten = torch.ops.aten


def stashed(joint: fx.GraphModule, chosen: Iterable[Stash]) -> fx.GraphModule:
    """The same step with these stashes, of ``stashes_of(joint, ...)``. What they add says so by
    ``meta["stash"]``, the name of the value."""
    writer = _StashWriter(joint)
    for stash in chosen:
        writer.add(stash)
    return writer.module()


class _StashWriter:
    def __init__(self, joint: fx.GraphModule):
        self._joint, self._graph = joint, fx.Graph()
        self._copies: dict[fx.Node, fx.Node] = {}
        results = self._graph.graph_copy(joint.graph, self._copies)
        self._graph.output(results).meta = dict(joint.graph.output_node().meta)
        self._calls = Calls(joint, self._graph)
        self._places = {node: place for place, node in enumerate(joint.graph.nodes)}

    def add(self, stash: Stash) -> None:
        value = self._copies[stash.value]
        with self._graph.inserting_before(value.next):
            held = stash.form.hold(self._run(stash, "hold"), value) if stash.form else ()
            bits = {low: self._run(stash, "bits")(torch.ops.lowtide.passing_bits.default, value,
                                                  low)
                    for low in dict.fromkeys(passing.low for passing in stash.passing)}
        self._read_widened(stash, held)
        for passing in stash.passing:
            self._pass_by_bits(stash, passing.reader, bits[passing.low])
        for reader, view in stash.shaped:
            self._read_shape(stash, reader, view)

    def module(self) -> fx.GraphModule:
        self._graph.eliminate_dead_code()
        return fx.GraphModule(self._joint, self._graph)

    def _run(self, stash: Stash, what: str) -> Callable:
        """Adds calls that are told of the value."""
        run = self._calls.instead_of(stash.value, f"{stash.name}_{what}")

        def run_marked(target, *args, **kwargs):
            made = run(target, *args, **kwargs)
            for node in made if isinstance(made, list) else [made]:
                node.meta["stash"] = stash.name
                for source in node.all_input_nodes if isinstance(made, list) else ():
                    source.meta["stash"] = stash.name
            return made

        return run_marked

    def _read_widened(self, stash: Stash, held: Sequence[fx.Node]) -> None:
        """Widens the value once, before all that reads it, and views it as that does."""
        if not stash.read:
            return
        first = min((reader for reader, _ in stash.read), key=self._places.__getitem__)
        with self._graph.inserting_before(self._copies[first]):
            run = self._run(stash, "widened")
            made = {stash.value: stash.form.widen(run, held, stash.value.meta["val"])}
            for reader, view in stash.read:
                self._copies[reader].replace_input_with(self._copies[view],
                                                        _viewed(run, made, view))

    def _pass_by_bits(self, stash: Stash, reader: fx.Node, bits: fx.Node) -> None:
        old = self._copies[reader]
        with self._graph.inserting_before(old):
            passed = self._run(stash, "passed")(torch.ops.lowtide.pass_by_bits.default,
                                                old.args[0], bits)
        passed.meta = {**old.meta, "stash": stash.name}  # views of it are told by its memory
        old.replace_all_uses_with(passed)
        self._graph.erase_node(old)
        self._copies[reader] = passed

    def _read_shape(self, stash: Stash, reader: fx.Node, view: fx.Node) -> None:
        copy = self._copies[reader]
        with self._graph.inserting_before(copy):
            shape = _without_values(self._run(stash, "shape"), copy, view.meta["val"])
            copy.replace_input_with(self._copies[view], shape)


def _viewed(run: Callable, made: dict[fx.Node, fx.Node], view: fx.Node) -> fx.Node:
    """The view of the widened value that stands for a view of the value."""
    if view not in made:
        source = _viewed(run, made, view.args[0])
        made[view] = run(view.target, source, *view.args[1:], **view.kwargs)
    return made[view]


def _without_values(run: Callable, reader: fx.Node, like: torch.Tensor) -> fx.Node:
    """A tensor of this shape, whose kernels find the same layout: of one element where they take it
    for contiguous, else of as many bytes."""
    if like.is_contiguous():
        element = run(_aten.new_zeros.default, reader.args[0], [1] * like.dim(), dtype=like.dtype)
        return run(_aten.expand.default, element, list(like.shape))
    return run(_aten.new_empty_strided.default, reader.args[0], list(like.shape),
               list(like.stride()), dtype=like.dtype)
