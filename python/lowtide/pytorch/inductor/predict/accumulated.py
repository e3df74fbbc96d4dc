"""Products that are added to something, as the one op that Inductor makes of them.

The gradient of a weight that is read several times is a sum of products. Inductor turns each
``add(mm(a, b), x)`` into ``addmm(x, a, b)``, so that none of the products lies in memory beside the
sum.
"""

from __future__ import annotations

import copy

import torch
from torch import fx

_aten = torch.ops.aten


def with_accumulation(module: fx.GraphModule) -> fx.GraphModule:
    """The graph with such ops as one; itself where there are none.

    The conditions are those of ``torch._inductor.fx_passes.post_grad`` on processors.
    """
    if not any(_product_in(node) for node in module.graph.nodes):
        return module
    graph = copy.deepcopy(module.graph)
    for node in list(graph.nodes):
        product = _product_in(node)
        if product is not None:
            _join(graph, product, node)
    graph.lint()
    return fx.GraphModule(module, graph)


def _join(graph, product, node):
    (other,) = (read for read in node.args if read is not product)
    with graph.inserting_before(node):
        joined = graph.create_node("call_function", _aten.addmm.default, (other, *product.args))
    joined.meta = dict(node.meta)
    node.replace_all_uses_with(joined)
    for replaced in (node, product):
        graph.erase_node(replaced)


def _product_in(node: fx.Node) -> fx.Node | None:
    """The product that an addition may take in."""
    if node.target is not _aten.add.Tensor or node.kwargs:
        return None
    left, right = node.args
    return next((read for read, other in ((left, right), (right, left))
                 if read is not other and _is_read_once(read) and _takes(read, other)), None)


def _is_read_once(read) -> bool:
    return (isinstance(read, fx.Node) and read.target is _aten.mm.default
            and len(read.users) == 1)


def _takes(product: fx.Node, other) -> bool:
    value = other.meta.get("val") if isinstance(other, fx.Node) else None
    made = product.meta["val"]
    return (isinstance(value, torch.Tensor) and value.dtype == made.dtype
            and made.device.type == "cpu" and _expands_to(value.shape, made.shape))


def _expands_to(shape, wanted) -> bool:
    return len(shape) <= len(wanted) and all(
        size in (1, full) for size, full in zip(reversed(shape), reversed(wanted)))
