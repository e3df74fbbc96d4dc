"""What AOTAutograd says about the inputs of a joint graph."""

from __future__ import annotations

import torch
from torch._functorch._aot_autograd import descriptors
from torch._subclasses import FakeTensor, FakeTensorMode


def placeholders(joint: torch.fx.GraphModule, kind: str) -> list[torch.fx.Node]:
    """The placeholders ``primals_*`` or ``tangents_*`` in order; ``kind`` is the word before _."""
    return [node for node in joint.graph.find_nodes(op="placeholder")
            if node.target.startswith(kind + "_")]


def mutated_primals(joint: torch.fx.GraphModule) -> tuple[int, ...]:
    """Indices of the primals whose new values are among the forward outputs.

    AOTAutograd copies these values into the caller's tensors once the forward pass is over. It
    describes every output of a joint graph; this reads the descriptions.
    """
    described = [node.meta["desc"] for node in placeholders(joint, "primals")]
    results = joint.graph.output_node().meta["desc"]
    return tuple(described.index(result.mutated_input) for result in results
                 if isinstance(result, descriptors.InputMutationAOTOutput))


def fake_mode_of(joint: torch.fx.GraphModule) -> FakeTensorMode:
    """Of the fake tensors of a joint graph, which may be another one than that of a trace that is
    under way."""
    return next(value.fake_mode for node in joint.graph.find_nodes(op="placeholder")
                if isinstance(value := node.meta.get("val"), FakeTensor))
