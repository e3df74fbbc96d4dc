"""Which values of a joint graph can be held in fewer bits between the passes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import fx

from ..common.stash_kinds import changes_gradients
from ..joint_graph.dense import is_dense
from ..joint_graph.phases import split
from .forms import BITS, drawn, lossy
from .indices import form_of_indices
from .stash import Form, Passing, Stash

_aten = torch.ops.aten

#: Ops of the backward pass that read of one argument nothing but its shape, and its position.
_SHAPED = {target: 1 for target in (
    _aten.max_pool2d_with_indices_backward.default, _aten.max_pool3d_with_indices_backward.default,
    _aten.adaptive_max_pool2d_backward.default, _aten.adaptive_max_pool3d_backward.default,
    _aten.fractional_max_pool2d_backward.default, _aten.fractional_max_pool3d_backward.default,
    _aten.avg_pool2d_backward.default, _aten.avg_pool3d_backward.default,
    _aten._adaptive_avg_pool2d_backward.default, _aten._adaptive_avg_pool3d_backward.default)}

#: Passes the gradient on where argument 1 is not at most argument 2.
_PASSING = _aten.threshold_backward.default

#: They read logarithms, whose error is the relative error of what is meant.
_OF_LOGARITHMS = (_aten._log_softmax_backward_data.default,)

_FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def stashes_of(joint: fx.GraphModule, num_fwd_outputs: int, kind: str) -> tuple[Stash, ...]:
    """All that are allowed: of ``"exact"`` those without loss, else also activations in that type.
    Small values have some that are of no use.

    Not values that the caller has anyway, primals and results, nor views of these.
    """
    forward, backward = split(joint, num_fwd_outputs)
    values = [*_tensors(forward), *_tensors(backward)]
    known = {_storage(node) for node in _tensors(
        [*joint.graph.find_nodes(op="placeholder"), *joint.graph.find_nodes(op="get_attr"),
         *joint.graph.output_node().all_input_nodes])}
    views: dict[int, list[fx.Node]] = {}
    for node in values:
        views.setdefault(_storage(node), []).append(node)
    behind = set(backward)
    found = (_stash(group, behind, kind) for storage, group in views.items()
             if storage not in known and group[0] not in behind)
    return tuple(stash for stash in found if stash is not None)


def _tensors(nodes: Iterable[fx.Node]) -> Iterator[fx.Node]:
    return (node for node in nodes if isinstance(node.meta.get("val"), torch.Tensor))


def _storage(node: fx.Node) -> int:
    return node.meta["val"].untyped_storage()._cdata


def _stash(group: Sequence[fx.Node], behind: set[fx.Node], kind: str) -> Stash | None:
    """Of a value, the first of the group, and its views; ``behind``: the backward pass."""
    value = group[0].meta["val"]
    if not _fills_its_storage(value):
        return None
    reads = [(reader, view) for view in group for reader in view.users
             if reader in behind and reader not in group]
    if not reads:
        return None
    if not all(_can_be_viewed_again(view, group) for _, view in reads):
        return None
    shaped = [pair for pair in reads if _reads_its_shape(*pair)]
    passing = [pair for pair in reads if _passes(*pair)]
    read = [pair for pair in reads if pair not in shaped and pair not in passing]
    form = _form(group[0], read, kind) if read else None
    if read and form is None:
        return None
    return Stash(group[0], form, tuple(read),
                 tuple(Passing(reader, reader.args[2]) for reader, _ in passing), tuple(shaped))


def _can_be_viewed_again(view: fx.Node, group: Sequence[fx.Node]) -> bool:
    """Whether calls with one result each lead from the value to this view: a part of what a call
    such as ``chunk`` returns is none of them."""
    while view is not group[0]:
        view = view.args[0]
        if view not in group:
            return False
    return True


def _fills_its_storage(value: torch.Tensor) -> bool:
    return (value.layout is torch.strided and is_dense(value.shape, value.stride())
            and value.numel() * value.itemsize == value.untyped_storage().nbytes())


def _form(value: fx.Node, read: Sequence[tuple[fx.Node, fx.Node]], kind: str) -> Form | None:
    tensor = value.meta["val"]
    if tensor.dtype == torch.bool:
        return BITS
    if tensor.dtype == torch.int64:
        return form_of_indices(value)
    if tensor.dtype not in _FLOATS:
        return None
    divisor = _divisor_of_draws(value)
    if divisor is not None:
        return drawn(divisor[0])
    # Further results of an op are its statistics.
    is_statistic = value.target is operator.getitem and value.args[1] > 0
    reads_logarithms = any(reader.target in _OF_LOGARITHMS for reader, _ in read)
    if not changes_gradients(kind) or is_statistic or reads_logarithms:
        return None
    return lossy(kind, tensor.dtype)


def _divisor_of_draws(value: fx.Node) -> tuple[float | None] | None:
    """In a tuple, the number by which drawn zeros and ones are divided, or None; None of other
    values."""
    if value.target is _aten.bernoulli.p:
        return (None,)
    if value.target is not _aten.div.Tensor or not _keeps_draws(value):
        return None
    source = value.args[0]
    while source.target is _aten.permute.default:
        source = source.args[0]
    return (value.args[1],) if source.target is _aten.bernoulli.p else None


def _keeps_draws(quotient: fx.Node) -> bool:
    """Whether a one that was drawn is still more than a zero when it is divided."""
    divisor = quotient.args[1]
    if not isinstance(divisor, (int, float)) or not divisor > 0:
        return False
    limits = torch.finfo(quotient.meta["val"].dtype)
    return limits.tiny <= 1 / divisor <= limits.max


def _reads_its_shape(reader: fx.Node, view: fx.Node) -> bool:
    position = _SHAPED.get(reader.target)
    return position is not None and _reads_at(reader, view, position)


def _reads_at(reader: fx.Node, view: fx.Node, position: int) -> bool:
    """Whether it reads the value as this argument alone."""
    return reader.args[position] is view and sum(
        given is view for given in reader.args) == 1 and view not in reader.kwargs.values()


def _passes(reader: fx.Node, view: fx.Node) -> bool:
    """Whether bits of the value serve: they are in the order of its addresses, in which the
    gradient and the result have to lie, too."""
    if reader.target is not _PASSING or not _reads_at(reader, view, 1):
        return False
    value, gradient = view.meta["val"], reader.args[0].meta["val"]
    return (_fills_its_storage(value) and _is_exact_in(value.dtype, reader.args[2])
            and all(tensor.dtype == value.dtype and tensor.shape == value.shape
                    and tensor.stride() == value.stride()
                    for tensor in (gradient, reader.meta["val"])))


def _is_exact_in(dtype: torch.dtype, bound: float) -> bool:
    """Whether kernels compare with the same bound, whether or not they round it to the type."""
    return dtype in _FLOATS and torch.tensor(bound, dtype=dtype).item() == bound
