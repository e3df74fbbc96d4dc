"""What a capture yields."""

from __future__ import annotations

import dataclasses

import torch

from ... import Graph

#: The type of the op where the forward pass ends: the caller takes the outputs and gives tangents.
BOUNDARY = "lowtide::boundary"


@dataclasses.dataclass(frozen=True)
class Output:
    """One result of a joint graph: a tensor of the graph, or something else that is known already.

    ``tensor`` is an index into ``Graph.tensors`` and None for a literal (None, an int, ...).
    """

    tensor: int | None = None
    literal: object = None


@dataclasses.dataclass(frozen=True)
class Captured:
    """A lowtide graph and how it belongs to the joint graph that it was made from.

    Tensor ids index ``graph.tensors``, op ids ``graph.ops``. All costs are 0.
    """

    graph: Graph
    joint: torch.fx.GraphModule
    nodes: tuple[torch.fx.Node | None, ...]  # by op id; None for the boundary
    boundary: int  # op id
    primals: tuple[int | None, ...]  # by primal: its resident; None: unused or no tensor
    constants: tuple[tuple[int, torch.Tensor], ...]  # residents that are no primals, their values
    forward_outputs: tuple[Output, ...]
    tangents: tuple[int, ...]  # by tangent: what the boundary makes
    gradients: tuple[Output, ...]  # by primal
    updated: tuple[int, ...]  # indices of the primals that the module overwrites
    device: str = "cpu"  # on which the step runs, by its name in PyTorch
