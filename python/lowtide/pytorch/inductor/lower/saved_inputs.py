"""Inputs that the forward saves as they are.

A convolution wants its weight with channels last. Inductor makes a copy of it so and saves the copy
in place of the weight, which lies in memory anyway: all such copies are held from the forward to
the backward. Where a plan spares memory the weight itself is saved, and the backward makes a copy
for each convolution as it comes.
"""

from __future__ import annotations

from torch import fx


def save_inputs_as_they_are(forward: fx.GraphModule) -> None:
    """Marks them as Inductor marks what the user sees, whose layout it does not change."""
    output = forward.graph.output_node()
    inputs = {index for index, value in enumerate(output.args[0])
              if isinstance(value, fx.Node) and value.op == "placeholder"}
    visible = output.meta.get("user_visible_output_idxs", [])
    output.meta["user_visible_output_idxs"] = sorted(inputs.union(visible))
