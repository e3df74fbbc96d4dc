"""Results are traced with the strides and the bytes that their kernels give them."""

import pytest
import torch
from lowtide.pytorch.capture import eager_kernels
from lowtide.pytorch.capture.kernel_layouts import LAYOUTS, has_own_layout
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

pytestmark = pytest.mark.usefixtures("one_thread")

aten = torch.ops.aten


def plain(*shape):
    return torch.rand(shape)


def reversed_dims(*shape):
    return torch.rand(*reversed(shape)).permute(*reversed(range(len(shape))))


def channels_last(*shape):
    return torch.rand(*shape).contiguous(memory_format=torch.channels_last)


def pairs():
    """Two tensors to be combined element by element."""
    for shape in ((5, 7), (3, 5, 7), (2, 3, 5, 7)):
        for make in (plain, reversed_dims):
            for beside in (plain(*shape), reversed_dims(*shape), plain(shape[-1]), plain()):
                yield make(*shape), beside
    yield reversed_dims(10, 1, 5), reversed_dims(10, 5)


def equal_pairs():
    return ((a, b) for a, b in pairs() if a.shape == b.shape)


def images():
    """Activations of a convolution, and gradients for them."""
    for make in (plain, reversed_dims, channels_last):
        for gradient in (plain, reversed_dims, channels_last):
            yield make(2, 3, 6, 8), gradient(2, 3, 6, 8)
    yield reversed_dims(2, 3, 6), plain(2, 3, 6)
    yield plain(2, 3, 6), reversed_dims(2, 3, 6)


def parts(rows, columns):
    """All of a tensor, and parts of larger ones."""
    yield plain(rows, columns)
    yield plain(rows + 3, columns)[2:-1]
    yield reversed_dims(rows, columns + 5)[:, 3:-2]
    yield plain(1, columns).expand(rows, columns)
    yield plain(rows, 1).expand(rows, columns)


def statistics(count=3):
    return torch.rand(count), torch.rand(count) + 1


def losses(op, *others):
    return [(op, a, b, *others, reduction) for a, b in equal_pairs() for reduction in (0, 1, 2)]


def loss_gradients(op, *others):
    return [(op, plain(), a, b, reduction, *others)
            for a, b in equal_pairs() for reduction in (1, 2)]


def elementwise(op, *others):
    return [(op, a, b, *others) for a, b in pairs()]


def norms(op, takes_statistics=True):
    return [(op, x, *statistics(), *(statistics() if takes_statistics else ()), True, 0.1, 1e-5)
            for x, _ in images()]


def layer_norm_gradients():
    return [(aten.native_layer_norm_backward.default, gradient, x, [x.shape[-1]],
             *2 * [torch.rand(*x.shape[:-1], 1)], *statistics(x.shape[-1]), [True] * 3)
            for x, gradient in images()]


def group_norm_gradients():
    return [(aten.native_group_norm_backward.default, gradient, x, *2 * [torch.rand(2, 1)],
             torch.rand(3), 2, 3, 48, 1, [True] * 3)
            for x in (plain(2, 3, 6, 8), channels_last(2, 3, 6, 8))
            for gradient in (plain(2, 3, 6, 8), channels_last(2, 3, 6, 8))]


def mixed_norms():
    """Of half precision, with parameters of either precision or none."""
    x = torch.rand(4, 6, 8).bfloat16()
    for dtype in (torch.float32, torch.bfloat16, None):
        def ones(size):
            return None if dtype is None else torch.ones(size, dtype=dtype)  # noqa: B023
        yield aten.native_layer_norm.default, x, [8], ones(8), ones(8), 1e-5
        yield aten.native_group_norm.default, x, ones(6), ones(6), 4, 6, 8, 2, 1e-5
        if dtype is not None:
            statistics = 2 * [torch.ones(4, 2, dtype=dtype)]
            yield (aten.native_group_norm_backward.default, x, x, *statistics, ones(6), 4, 6, 8, 2,
                   [True] * 3)
            for op in (aten.native_batch_norm.default, aten._native_batch_norm_legit.default,
                       aten._native_batch_norm_legit_functional.default):
                yield op, x, *(ones(6) for _ in range(4)), True, 0.1, 1e-5
            yield (aten._native_batch_norm_legit.no_stats, x, ones(6), ones(6), True, 0.1, 1e-5)


def norm_gradients(op):
    return [(op, gradient, x, statistics()[0], *statistics(), *statistics(), True, 1e-5, [True] * 3)
            for x, gradient in images()]


def paddings(op):
    grown = [make(2, 3, 10, 12) for make in (plain, reversed_dims, channels_last)]
    return [(op, gradient, x, [2, 2, 2, 2]) for gradient in grown
            for x, _ in images() if x.dim() == 4]


def unpooled(op):
    pooled = [aten.max_pool2d_with_indices(x, [2, 2]) for x, _ in images() if x.dim() == 4]
    return [(op, values, indices, [6, 8]) for values, indices in pooled]


def folded(op):
    return [(op, columns, [4, 4], [2, 2], [1, 1], padding, [1, 1])
            for columns, padding in ((plain(2, 12, 9), [0, 0]), (reversed_dims(2, 12, 9), [0, 0]),
                                     (plain(12, 9), [0, 0]), (plain(2, 12, 25), [1, 1]))]


CALLS = [
    *losses(aten.mse_loss.default), *losses(aten.smooth_l1_loss.default),
    *losses(aten.soft_margin_loss.default), *losses(aten.binary_cross_entropy.default, None),
    *losses(aten.huber_loss.default),
    *loss_gradients(aten.mse_loss_backward.default),
    *loss_gradients(aten.smooth_l1_loss_backward.default, 1.0),
    *loss_gradients(aten.huber_loss_backward.default, 1.0),
    *elementwise(aten.copysign.Tensor), *elementwise(aten.floor_divide.default),
    *((aten.floor_divide.default, a, 2) for a, _ in pairs()),
    *elementwise(aten.heaviside.default), *elementwise(aten.logaddexp.default),
    *elementwise(aten.logaddexp2.default), *elementwise(aten.logit_backward.default),
    *elementwise(aten.special_xlog1py.default), *elementwise(aten.xlogy.Tensor),
    *elementwise(aten.hardtanh_backward.default, -0.5, 0.5),
    *((aten.native_dropout_backward.default, a, b > 0.5, 2.0) for a, b in equal_pairs()),
    *((aten.pow.Scalar, 2.0, a) for a, _ in pairs()),
    *((aten.log_sigmoid_forward.default, a) for a, _ in pairs()),
    *((aten._log_softmax_backward_data.default, a, b, 1, torch.float32) for a, b in equal_pairs()),
    *((aten._softmax_backward_data.default, a, b, 1, torch.float32) for a, b in equal_pairs()),
    *norms(aten.native_batch_norm.default), *norms(aten._native_batch_norm_legit.default),
    *norms(aten._native_batch_norm_legit_functional.default),
    *norms(aten._native_batch_norm_legit.no_stats, takes_statistics=False),
    *((aten.hardsigmoid_backward.default, a, b) for a, b in equal_pairs()),
    *elementwise(aten.hardswish_backward.default),
    *elementwise(aten.softplus_backward.default, 1, 20),
    *((aten.elu_backward.default, a, 1, 1, 1, False, b) for a, b in equal_pairs()),
    *((aten.rrelu_with_noise_backward.default, a, b, slopes, lower, 0.3, training, False)
      for a, b in equal_pairs() for slopes in (a, b, plain(*a.shape))
      for lower, training in ((0.1, True), (0.3, True), (0.1, False), (0.3, False))),
    *((aten.glu_backward.default, gradient[:, :1], x[:, :2], 1) for x, gradient in images()),
    *((aten.roll.default, x, [2, 1], [1, -1]) for x, _ in images()),
    *layer_norm_gradients(), *group_norm_gradients(),
    *mixed_norms(), *norm_gradients(aten.native_batch_norm_backward.default),
    *paddings(aten.reflection_pad2d_backward.default),
    *paddings(aten.replication_pad2d_backward.default),
    *unpooled(aten.max_unpool2d.default), *folded(aten.col2im.default),
    *((aten.copy.default, part, torch.ones(8, 4)) for part in 2 * [*parts(8, 4)]),
    *((aten.slice_scatter.default, part, torch.ones(8, 2), 1, 2, 4) for part in parts(8, 4)),
    *((aten.select_scatter.default, part, torch.ones(8), 1, 2) for part in parts(8, 4)),
    *((aten.diagonal_scatter.default, part, torch.ones(4)) for part in parts(8, 4)),
]
MODES = [(aten.div.Tensor_mode, a, b, mode)
         for a, b in pairs() for mode in (None, "floor", "trunc")]


def layouts(results):
    """Strides (of dimensions of one element they say nothing) and bytes of each result."""
    return [([stride for stride, size in zip(t.stride(), t.shape) if size > 1],
             t.untyped_storage().nbytes()) for t in pytree.tree_leaves(results)]


def traced(op, args, kwargs):
    mode = FakeTensorMode()
    args = pytree.tree_map_only(torch.Tensor, mode.from_tensor, args)
    with mode:
        return layouts(op(*args, **kwargs))


@pytest.mark.parametrize("op", [*LAYOUTS, aten.huber_loss.default,
                                aten._softmax_backward_data.default], ids=str)
def test_traced_results_lie_as_those_of_the_kernel(op):
    calls = [(args, {}) for other, *args in CALLS if other is op]
    calls += [(args, {"rounding_mode": mode}) for other, *args, mode in MODES if other is op]
    assert calls
    real = [layouts(op(*args, **kwargs)) for args, kwargs in calls]
    plainly = [traced(op, args, kwargs) for args, kwargs in calls]
    # What PyTorch traces right needs no help.
    assert (plainly != real) == has_own_layout(op, op(*calls[0][0], **calls[0][1]))
    with eager_kernels():
        # The first one twice: PyTorch remembers results.
        for (args, kwargs), theirs in [*zip(calls, real), (calls[0], real[0])]:
            assert traced(op, args, kwargs) == theirs, [
                a.stride() for a in args if isinstance(a, torch.Tensor)]


def one_pixel(*strides):
    return torch.empty_strided((2, 4, 1, 1), strides).uniform_()


def ambiguous():
    """Images of one pixel, whose strides say that they are in order and in channels last."""
    return [one_pixel(4, 1, 1, 1), one_pixel(4, 1, 4, 4)]


def of_one(*ops):
    return [(op, x) for op in ops for x in ambiguous()]


def of_two(op, *others):
    return [(op, x, y, *others) for x in ambiguous() for y in ambiguous()]


AMBIGUOUS_CALLS = [
    *of_one(aten.relu.default, aten.gelu.default, aten.silu.default, aten.sigmoid.default,
            aten.hardsigmoid.default, aten.clone.default),
    *of_two(aten.add.Tensor), *of_two(aten.mul.Tensor), *of_two(aten.gelu_backward.default),
    *of_two(aten.threshold_backward.default, 0), *of_two(aten.hardsigmoid_backward.default),
    *((aten.pow.Tensor_Scalar, x, 2) for x in ambiguous()),
    *((op, x, 2.0) for op in (aten.mul.Tensor, aten.mul.Scalar) for x in ambiguous()),
    *((aten.mul.Tensor, x, torch.rand(4, 1, 1)) for x in ambiguous()),
    *((aten.native_layer_norm.default, x.permute(0, 2, 3, 1), [4], *statistics(4), 1e-5)
      for x in ambiguous()),
    *((aten.native_batch_norm.default, x, *statistics(4), *statistics(4), True, 0.1, 1e-5)
      for x in ambiguous()),
    *((aten.native_group_norm.default, x, *statistics(1), 2, 1, 9, 1, 1e-5)
      for x in (plain(2, 1, 3, 3), torch.rand(2, 3, 3, 1).permute(0, 3, 1, 2))),
]


@pytest.mark.parametrize("op, args", [(op, args) for op, *args in AMBIGUOUS_CALLS],
                         ids=[str(op) for op, *_ in AMBIGUOUS_CALLS])
def test_strides_of_dimensions_of_one_element_are_those_of_the_kernel(op, args):
    """By which convolutions choose between memory formats."""
    fake = FakeTensorMode()
    fakes = pytree.tree_map_only(torch.Tensor, fake.from_tensor, args)
    with eager_kernels(), fake:
        traced_strides = [t.stride() for t in pytree.tree_leaves(op(*fakes))]
    assert traced_strides == [t.stride() for t in pytree.tree_leaves(op(*args))]
