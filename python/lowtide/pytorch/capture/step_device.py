"""The device on which a joint graph runs."""

from __future__ import annotations

import torch

from ... import InputError
from .user_line import at_user_line


def step_device(joint: torch.fx.GraphModule) -> str:
    """The one device of all tensors, by its name: ``cpu`` or ``cuda:0``. Tensors of the CPU without
    a dimension may be there too: ops of every device take such numbers.

    Raises InputError that names a tensor, with the line of the user's code, on a second device.
    """
    found, first = None, None
    for node in joint.graph.nodes:
        for tensor in _tensors(node):
            if tensor.dim() == 0 and tensor.device.type == "cpu":
                continue
            if found is None:
                found, first = tensor.device, node
            if tensor.device != found:
                raise InputError(
                    f"{node.name} is on the device {tensor.device} and {first.name} on {found}, "
                    f"and a plan is for one device: move the model and its inputs to one with "
                    f".to(), and make tensors in forward there, by device=x.device"
                    f"{at_user_line(node)}")
    return str(found or "cpu")


def _tensors(node: torch.fx.Node) -> list[torch.Tensor]:
    value = node.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else [value]
    return [each for each in values if isinstance(each, torch.Tensor)]
