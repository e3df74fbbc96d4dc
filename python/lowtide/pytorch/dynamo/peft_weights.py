"""Weights of PEFT's layers, in the form that can be traced.

Its adapters that read a weight itself, such as DoRA, ask for the name of the module of the weight's
class, by which they know quantized ones. Dynamo does not trace that, and breaks the graph in each
layer.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import torch

from .transformers_masks import copied


def substitute_weights() -> None:
    """Has Dynamo trace the weight of a layer that is not quantized as what it is. Eager code runs
    PEFT's own function, and so do layers whose weight is anything else. Does nothing where PEFT is
    not in use."""
    integrations = sys.modules.get("peft.utils.integrations")
    original = getattr(integrations, "dequantize_module_weight", None)
    if original is not None:
        _substitute(original)


@functools.cache
def _substitute(original: Callable) -> None:
    torch._dynamo.decorators.substitute_in_graph(original, skip_signature_check=True)(
        _of_plain_layers(original))


def _of_plain_layers(original: Callable) -> Callable:
    plain = copied(original)

    def dequantize_module_weight(module):
        if type(module.weight) is torch.nn.Parameter and not hasattr(module, "W_q"):
            return module.weight
        return plain(module)

    return dequantize_module_weight
