"""Results that lie in memory as the kernels lay them, where PyTorch traces them otherwise.

A plan gives each result as many bytes as its kernel takes, and writes it over an input that lies
alike. PyTorch's tracer follows decompositions for some ops whose kernels choose other strides, or
take memory for more elements than they return: a mean loss is first computed for each element.
Norms of half precision whose parameters are of single precision have statistics of the latter.

Strides of dimensions of one element count too: a convolution of images of one pixel chooses its
kernel, and so its scratch memory, by whether they are those of channels last.
"""

from __future__ import annotations

import contextlib
import functools

import torch
from torch._prims_common import make_contiguous_strides_for, suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensorMode

from ..common.cpu_kernels import has_cpu_kernels

_aten = torch.ops.aten
_NO_REDUCTION = 0
_OVERLAPS = 1


def _contiguous(result, *_, **__):
    """Whatever the inputs look like."""
    return torch.empty(result.shape, dtype=result.dtype, device=result.device)


def _all_contiguous(results, *_, **__):
    return tuple(map(_contiguous, results))


def _elementwise(result, *args, **_):
    """As any kernel of one or two operands, in the order in which it is given them."""
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if not tensors:  # of two numbers, as Longformer of transformers has it
        return result
    layout = torch.add(tensors[0], tensors[-1])
    return torch.empty_strided(layout.shape, layout.stride(), dtype=result.dtype,
                               device=result.device)


def _rrelu_backward(result, gradient, x, slopes, lower, upper, training, *_):
    """The slopes that were drawn times the gradient; elsewhere as of a leaky ReLU."""
    return _elementwise(result, slopes if training else x, gradient)


def _in_format_of(position):
    """Channels last where that argument has it, else contiguous; other results stay."""
    def layout(results, *args, **_):
        memory_format = suggest_memory_format(args[position])
        if isinstance(results, torch.Tensor):
            return torch.empty_like(results, memory_format=memory_format)
        first, *others = results
        return (first if first is None else
                torch.empty_like(first, memory_format=memory_format), *others)

    return layout


def _is_mixed(x, parameters):
    """Whether a norm of half precision has parameters of single precision, as under autocast."""
    dtypes = {tensor.dtype for tensor in parameters if isinstance(tensor, torch.Tensor)}
    return x.dtype in (torch.bfloat16, torch.float16) and torch.float32 in dtypes


def _batch_norm(results, x, *args, **_):
    """Statistics are kept in the precision of the parameters, running ones in their own."""
    y, mean, deviation, *running = _in_format_of(0)(results, x)
    if x.is_contiguous():
        y = _contiguous(y)
    dtype = torch.float32 if _is_mixed(x, args[:4]) else x.dtype
    running = [new if old is None else new.to(old.dtype) for new, old in zip(running, args[2:4])]
    return (y, mean.to(dtype), deviation.to(dtype), *running)


def _statistics(mean, deviation, x, parameters):
    dtype = torch.float32 if _is_mixed(x, parameters) else x.dtype
    return mean.to(dtype), deviation.to(dtype)


def _layer_norm(results, x, _, *parameters, **__):
    y, *statistics = results
    return _contiguous(y), *_statistics(*statistics, x, parameters[:2])


def _group_norm(results, x, *parameters, **_):
    y, *statistics = _in_format_of(0)(results, x)
    return y, *_statistics(*statistics, x, parameters[:2])


def _input_gradient_contiguous(results, *_, **__):
    gradient, *others = results
    return (None if gradient is None else _contiguous(gradient), *others)


def _group_norm_backward(results, gradient, x, *_, **__):
    """The input's gradient in the precision and memory format of the input."""
    first, *others = _in_format_of(1)(results, gradient, x)
    return (None if first is None else first.to(x.dtype), *others)


def _reduced_where_it_lies(loss, x, target, *others, reduction=1, **__):
    """Overwrites the losses of the elements by their mean or sum."""
    numbers = [other for other in others if isinstance(other, int)]
    if (numbers[0] if numbers else reduction) == _NO_REDUCTION:
        return loss
    each = torch.empty(torch.broadcast_shapes(x.shape, target.shape), dtype=loss.dtype,
                       device=loss.device)
    return each.resize_(loss.shape)


def _like_the_input_where_it_lies(loss, x, *args, **named):
    each = loss if loss.dim() == 0 else torch.empty_like(x)
    return _reduced_where_it_lies(each, x, *args, **named)


def _where_the_input_would_fit(result, x, *_, **__):
    """In memory for as many elements as the first argument has."""
    return torch.empty(x.shape, dtype=x.dtype, device=x.device).resize_(result.shape)


def _in_a_copy_of_its_storage(result, x, *_, **__):
    """Where the first argument lies in its storage, in as much memory; without gaps where its
    elements share some."""
    if torch._debug_has_internal_overlap(x) == _OVERLAPS:
        return torch.empty_like(x)
    elements = x.untyped_storage().nbytes() // x.element_size()
    return x.new_empty(elements).as_strided(x.shape, x.stride(), x.storage_offset())


#: By op: what makes, of the traced results and the arguments, those of the kernel.
LAYOUTS = {
    _aten._log_softmax_backward_data.default: _contiguous,
    _aten.huber_loss_backward.default: _contiguous,
    _aten.mse_loss_backward.default: _contiguous,
    _aten.smooth_l1_loss_backward.default: _contiguous,
    _aten.pow.Scalar: _contiguous,
    _aten.glu_backward.default: _contiguous,
    _aten.log_sigmoid_forward.default: _all_contiguous,
    _aten.copysign.Tensor: _elementwise,
    _aten.div.Tensor_mode: _elementwise,
    _aten.elu_backward.default: _elementwise,
    _aten.floor_divide.default: _elementwise,
    _aten.hardsigmoid_backward.default: _elementwise,
    _aten.hardswish_backward.default: _elementwise,
    _aten.softplus_backward.default: _elementwise,
    _aten.hardtanh_backward.default: _elementwise,
    _aten.heaviside.default: _elementwise,
    _aten.logaddexp.default: _elementwise,
    _aten.logaddexp2.default: _elementwise,
    _aten.logit_backward.default: _elementwise,
    _aten.native_dropout_backward.default: _elementwise,
    _aten.rrelu_with_noise_backward.default: _rrelu_backward,
    _aten.special_xlog1py.default: _elementwise,
    _aten.xlogy.Tensor: _elementwise,
    _aten.max_unpool2d.default: _in_format_of(0),
    _aten.roll.default: _in_format_of(0),
    _aten.native_batch_norm.default: _batch_norm,
    _aten._native_batch_norm_legit.default: _batch_norm,
    _aten._native_batch_norm_legit.no_stats: _batch_norm,
    _aten._native_batch_norm_legit_functional.default: _batch_norm,
    _aten.native_layer_norm.default: _layer_norm,
    _aten.native_layer_norm_backward.default: _input_gradient_contiguous,
    _aten.native_group_norm.default: _group_norm,
    _aten.native_group_norm_backward.default: _group_norm_backward,
    _aten.native_batch_norm_backward.default: _in_format_of(1),
    _aten.reflection_pad2d_backward.default: _in_format_of(1),
    _aten.replication_pad2d_backward.default: _in_format_of(1),
    _aten.binary_cross_entropy.default: _like_the_input_where_it_lies,
    _aten.mse_loss.default: _reduced_where_it_lies,
    _aten.smooth_l1_loss.default: _reduced_where_it_lies,
    _aten.soft_margin_loss.default: _reduced_where_it_lies,
    _aten.col2im.default: _where_the_input_would_fit,
    _aten.copy.default: _in_a_copy_of_its_storage,
    _aten.slice_scatter.default: _in_a_copy_of_its_storage,
    _aten.select_scatter.default: _in_a_copy_of_its_storage,
    _aten.diagonal_scatter.default: _in_a_copy_of_its_storage,
}
#: PyTorch traces those of a GPU as its kernels lay them.
_RIGHT_ON_A_GPU = frozenset((
    _aten.log_sigmoid_forward.default, _aten.native_dropout_backward.default,
    _aten.max_unpool2d.default, _aten.roll.default, _aten.native_batch_norm.default,
    _aten._native_batch_norm_legit.default, _aten._native_batch_norm_legit.no_stats,
    _aten._native_batch_norm_legit_functional.default, _aten.native_layer_norm.default,
    _aten.native_group_norm.default, _aten.native_group_norm_backward.default,
    _aten.reflection_pad2d_backward.default, _aten.replication_pad2d_backward.default))


@contextlib.contextmanager
def kernel_layouts():
    """While it lasts, fake tensors are laid out as the kernels lay out real ones."""
    plain, cached = FakeTensorMode._dispatch_impl, FakeTensorMode._cached_dispatch_impl

    def dispatch(self, func, types, args, kwargs):
        results = plain(self, func, types, args, kwargs)
        if has_own_layout(func, results):
            with self:
                return LAYOUTS[func](results, *args, **kwargs)
        if _iterates(func) and _is_ambiguous(results) and _are_in_order(func, args, results.shape):
            with self:
                return _contiguous(results)
        return results

    def dispatch_by_cache(self, func, types, args, kwargs):
        if func in LAYOUTS:  # the cache keeps no sizes of storages
            return self._dispatch_impl(func, types, args, kwargs)
        return cached(self, func, types, args, kwargs)

    FakeTensorMode._dispatch_impl = dispatch
    FakeTensorMode._cached_dispatch_impl = dispatch_by_cache
    FakeTensorMode.cache_clear()  # it keeps results by the arguments' shapes
    try:
        yield
    finally:
        FakeTensorMode._dispatch_impl, FakeTensorMode._cached_dispatch_impl = plain, cached
        FakeTensorMode.cache_clear()


@functools.cache
def _iterates(func) -> bool:
    """Whether the kernel makes a result element by element, going through all operands at once. The
    number of an overload for scalars is an operand too, of another shape. A higher-order operator,
    which has no schema, runs others."""
    if not isinstance(func, torch._ops.OpOverload):
        return False
    schema = func._schema
    takes_format = any(argument.name == "memory_format" for argument in schema.arguments)
    return (torch.Tag.pointwise in func.tags and not schema.is_mutable and not takes_format
            and not schema.overload_name.startswith("Scalar"))


def _is_ambiguous(results) -> bool:
    """Whether it is a tensor that is contiguous but for strides of dimensions of one element."""
    return (isinstance(results, torch.Tensor) and results.is_contiguous()
            and results.stride() != make_contiguous_strides_for(results.shape))


def _are_in_order(func, args, shape) -> bool:
    """Whether all operands are contiguous and of the shape; a number instead of a tensor is not."""
    operands = [arg for declared, arg in zip(func._schema.arguments, args)
                if isinstance(declared.type, torch.TensorType)]
    return all(isinstance(x, torch.Tensor) and x.is_contiguous() and x.shape == shape
               for x in operands)


def has_own_layout(func, results):
    """Whether the kernel lays out these results otherwise than PyTorch traces them."""
    if func not in LAYOUTS:
        return False
    results = [results] if isinstance(results, torch.Tensor) else results
    devices = {result.device for result in results if result is not None}
    if any(device.type == "cuda" for device in devices):
        return func not in _RIGHT_ON_A_GPU
    return all(map(has_cpu_kernels, devices))
