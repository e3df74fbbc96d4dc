"""The module of the user's model in which an op was called."""

from __future__ import annotations

import re

from torch import fx

#: Dynamo calls a module by how the code reaches it: L['model'].blocks.0, or, where a forward was
#: exchanged, by way of a function: L['model'].call.__self__.blocks.0 or
#: L['f'].__closure__[0].cell_contents.blocks.0. The user's name is the part behind the last such
#: step.
_ROUTE = re.compile(r"^(?:.*\.(?:__\w+__|cell_contents)(?:\[\w+\])?|[LG]\[.*?\])(?:\.|$)")


def module_of(node: fx.Node | None) -> tuple[str, str]:
    """The path of the innermost module that an op, or the one that it differentiates, was called
    in, ``blocks.0.attn``, and its class; both "" in the model's own forward, or where the trace
    knows none."""
    known = {} if node is None else node.meta
    stack = known.get("nn_module_stack") or known.get("fwd_nn_module_stack")
    if not stack:
        return "", ""
    route, kind = list(stack.values())[-1]
    path = _ROUTE.sub("", route)
    return (path, getattr(kind, "__name__", str(kind))) if path else ("", "")


def full_name(node: fx.Node) -> str:
    """The op's name behind that of its module: ``blocks.0.attn.bmm_1``."""
    path, _ = module_of(node)
    return f"{path}.{node.name}" if path else node.name
