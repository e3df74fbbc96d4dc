"""Batch norm in training by sums over the rows, so that it runs in slices.

The statistics stay those of the whole batch: each slice adds its part to a sum, and once all have,
each slice is normalized by itself.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ..joint_graph.calls import Calls
from .marks import Marks
from .rules.cut import Run, accumulated, in_type, shape

_aten = torch.ops.aten
_FUNCTIONAL = _aten._native_batch_norm_legit_functional.default
_BACKWARD = _aten.native_batch_norm_backward.default


def by_sums(joint: fx.GraphModule, marks: Marks) -> fx.GraphModule:
    """``joint`` with the batch norms of tensors with rows written as ops that can be cut."""
    graph = fx.Graph()
    calls = Calls(joint, graph)
    copies: dict[fx.Node, Any] = {}
    for node in joint.graph.nodes:
        written = _WRITTEN.get(node.target) if node in marks.whole else None
        source = node.args[0] if node.args else None
        if node.target is operator.getitem and isinstance(copies[source], list):
            copies[node] = copies[source][node.args[1]]
        elif written is not None:
            args = fx.map_arg(node.args, copies.__getitem__)
            copies[node] = written(calls.instead_of(node, node.name), *args)
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return fx.GraphModule(joint, graph)


def _forward(run: Run, x: fx.Node, weight, bias, running_mean, running_variance, _, momentum: float,
             epsilon: float) -> list:
    others = [dim for dim in range(len(shape(x))) if dim != 1]
    precise = accumulated(x.meta["val"].dtype)
    mean = run(_aten.mean.dim, x, others, False, dtype=precise)
    centered = run(_aten.sub.Tensor, x, _per_channel(run, mean, x))
    variance = run(_aten.mean.dim, run(_aten.mul.Tensor, centered, centered), others, False,
                   dtype=precise)
    kept = running_mean.meta["val"].dtype
    y = run(_aten._native_batch_norm_legit_no_training.default, x, weight, bias,
            in_type(run, mean, kept), in_type(run, variance, kept), momentum, epsilon)[0]
    inverse = run(_aten.rsqrt.default, run(_aten.add.Scalar, variance, epsilon))
    count = _count(x)
    unbiased = run(_aten.mul.Scalar, variance, count / max(count - 1, 1))
    return [y, mean, inverse, _moved(run, running_mean, mean, momentum),
            _moved(run, running_variance, unbiased, momentum)]


def _moved(run: Run, running: fx.Node, value: fx.Node, momentum: float) -> fx.Node:
    kept = run(_aten.mul.Scalar, running, 1 - momentum)
    moved = run(_aten.add.Tensor, kept, value, alpha=momentum)
    return in_type(run, moved, running.meta["val"].dtype)


def _backward(run: Run, gradient: fx.Node, x: fx.Node, weight, running, _, mean: fx.Node,
              inverse: fx.Node, _training, epsilon: float, mask: list[bool]) -> list:
    """The gradient of the input is a sum of multiples of the gradient, of the input less its mean,
    which may be far larger than what is left, and of one. The factors, by channel, come from sums
    over the whole batch."""
    variance = run(_aten.sub.Scalar, run(_aten.pow.Tensor_Scalar, inverse, -2), epsilon)
    kept = mean.meta["val"].dtype if running is None else running.meta["val"].dtype
    # The CPU's kernel reads the first pair of statistics, that of CUDA the second. That of CUDA
    # gives no gradients of parameters without that of the input, nor without a weight.
    is_on_cuda = x.meta["val"].device.type == "cuda"
    given = run(_aten.ones_like.default, mean) if weight is None and is_on_cuda else weight
    of_weight, of_bias = run(_BACKWARD, gradient, x, given, in_type(run, mean, kept),
                             in_type(run, variance, kept), mean, inverse, False, epsilon,
                             [is_on_cuda, True, True])[1:]
    if not mask[0]:
        return [None, of_weight, of_bias]
    scale = inverse if weight is None else run(_aten.mul.Tensor, inverse, weight)
    of_x = run(_aten.mul.Scalar, run(_aten.mul.Tensor, run(_aten.mul.Tensor, scale, inverse),
                                     of_weight), -1 / _count(x))
    of_one = run(_aten.mul.Scalar, run(_aten.mul.Tensor, scale, of_bias), -1 / _count(x))
    found = run(_aten.mul.Tensor, gradient, _per_channel(run, scale, x))
    centered = run(_aten.sub.Tensor, x, _per_channel(run, mean, x))
    found = run(_aten.addcmul.default, found, centered, _per_channel(run, of_x, x))
    found = run(_aten.add.Tensor, found, _per_channel(run, of_one, x))
    found = in_type(run, found, x.meta["val"].dtype)
    return [found, of_weight if mask[1] else None, of_bias if mask[2] else None]


def _per_channel(run: Run, value: fx.Node, x: fx.Node) -> fx.Node:
    return run(_aten.view.default, value, [-1, *[1] * (len(shape(x)) - 2)])


def _count(x: fx.Node) -> int:
    """Elements of a channel."""
    return math.prod(shape(x)) // shape(x)[1]


_WRITTEN: dict[object, Callable] = {_FUNCTIONAL: _forward, _BACKWARD: _backward}
