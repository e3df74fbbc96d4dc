"""The ops that hold values in fewer bits, against PyTorch's own."""

import itertools
import random

import pytest
import torch
from lowtide import _runtime  # noqa: F401 -- it defines the ops
from on_device import DEVICE
from sweep import sweep
from torch.nn import functional as F

OPS = torch.ops.lowtide
ATEN = torch.ops.aten
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

#: What comparisons and products treat apart.
SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 6.0, 3.0)


def random_layout(tensor, generator):
    """The same elements, whose dimensions lie in memory in a random order."""
    order = generator.sample(range(tensor.dim()), tensor.dim())
    back = [order.index(dim) for dim in range(tensor.dim())]
    return tensor.permute(order).contiguous().permute(back)


def random_floats(seed, dtype):
    generator = random.Random(seed)
    shape = [generator.randint(1, 9) for _ in range(generator.randint(1, 4))]
    torch.manual_seed(seed)
    tensor = torch.randn(shape)
    for value in SPECIAL:
        tensor[torch.rand(shape) < 0.05] = value
    return random_layout(tensor.to(DEVICE, dtype), generator)


def same_bits(a, b):
    return (a.stride() == b.stride() and a.dtype == b.dtype
            and torch.equal(a.isnan(), b.isnan())
            and torch.equal(a.nan_to_num(7), b.nan_to_num(7))
            and torch.equal(a.signbit(), b.signbit()))


@pytest.mark.parametrize("seed", range(12))
def test_masks_come_back_from_an_eighth_of_their_bytes(seed):
    mask = random_floats(seed, torch.float32) > 0
    bits = OPS.to_bits(mask)
    widened = OPS.from_bits(bits, mask.shape, mask.stride())
    assert bits.nbytes == -(-mask.numel() // 8)
    assert torch.equal(widened, mask) and widened.stride() == mask.stride()


def test_the_first_element_is_the_lowest_bit():
    mask = torch.tensor([True, False, False, True, False, False, False, True, True], device=DEVICE)
    assert OPS.to_bits(mask).tolist() == [0b10001001, 1]


def test_a_mask_with_gaps_is_refused():
    with pytest.raises(RuntimeError, match="one stretch of memory"):
        OPS.to_bits(torch.ones(4, 4, dtype=torch.bool, device=DEVICE)[:, ::2])


@pytest.mark.parametrize("seed, dtype", list(itertools.product(range(6), FLOATS)))
def test_gradients_pass_as_through_a_relu(seed, dtype):
    values = random_floats(seed, dtype)
    gradient = torch.empty_like(values).copy_(random_floats(seed, dtype).flip(0))
    for low in (0, 3):
        passed = OPS.pass_by_bits(gradient, OPS.passing_bits(values, low))
        assert same_bits(passed, ATEN.threshold_backward(gradient, values, low))


def random_pooling(seed):
    """An input, and the arguments of pooling over it."""
    generator = random.Random(seed)
    dims = generator.choice((2, 2, 3))
    kernel = [generator.randint(1, 3) for _ in range(dims)]
    dilation = [generator.randint(1, 2) for _ in range(dims)]
    size = [(k - 1) * d + generator.randint(1, 7) for k, d in zip(kernel, dilation)]
    stride = [generator.randint(1, 3) for _ in range(dims)]
    padding = [generator.randint(0, k // 2) for k in kernel]
    torch.manual_seed(seed)
    values = torch.randn(2, 3, *size).round(decimals=1).to(DEVICE)
    values[torch.rand(values.shape) < 0.02] = float("nan")
    if generator.random() < 0.5:
        values = values.contiguous(
            memory_format=torch.channels_last if dims == 2 else torch.channels_last_3d)
    return values, (kernel, stride, padding, dilation, generator.random() < 0.5)


def geometry(values, kernel, stride, padding, dilation):
    """``first, step, unit, sizes`` as windows.h has them, or None where digits would overlap."""
    plane = values.shape[2:]
    beside = [1] * len(plane)
    for dim in reversed(range(len(plane) - 1)):
        beside[dim] = beside[dim + 1] * plane[dim + 1]
    unit = [d * b for d, b in zip(dilation, beside)]
    reach = [(k - 1) * u for k, u in zip(kernel, unit)]
    if any(k > 1 and u <= sum(reach[i + 1:]) for i, (k, u) in enumerate(zip(kernel, unit))):
        return None
    return (-sum(p * b for p, b in zip(padding, beside)),
            [0, 0, *(s * b for s, b in zip(stride, beside))], unit, kernel)


@pytest.mark.parametrize("seed", sweep(range(400), usual=range(40)))
def test_indices_of_pooling_come_back_from_a_byte_each(seed):
    values, (kernel, stride, padding, dilation, ceil) = random_pooling(seed)
    pool = F.max_pool2d if values.dim() == 4 else F.max_pool3d
    _, indices = pool(values, kernel, stride, padding, dilation, ceil, return_indices=True)
    known = geometry(values, kernel, stride, padding, dilation)
    if known is None:
        pytest.skip("windows wider than the plane")
    places = OPS.window_places(indices, *known)
    widened = OPS.window_indices(places, *known)
    assert places.dtype == torch.uint8 and places.stride() == indices.stride()
    assert torch.equal(widened, indices) and widened.stride() == indices.stride()


def test_more_places_than_a_byte_has_are_refused():
    indices = torch.zeros(2, 2, dtype=torch.int64, device=DEVICE)
    with pytest.raises(RuntimeError, match="256"):
        OPS.window_places(indices, 0, [1, 1], [20, 1], [17, 17])


@pytest.mark.parametrize("seed, dtype", list(itertools.product(range(6), FLOATS)))
def test_8_bits_are_off_by_half_a_step_of_their_block(seed, dtype):
    torch.manual_seed(seed)
    values = random_layout(torch.randn(5, 7, 40) * 10 ** torch.randint(-3, 3, (5, 1, 1)),
                           random.Random(seed)).to(DEVICE, dtype)
    steps, scales = OPS.to_blocks(values)
    widened = OPS.from_blocks(steps, scales, dtype)
    assert steps.nbytes + scales.nbytes == values.numel() + 4 * -(-values.numel() // 256)
    assert widened.stride() == values.stride() and widened.dtype == dtype

    def flat(tensor):
        return tensor.as_strided((tensor.numel(),), (1,)).double()

    rounding = torch.finfo(dtype).eps
    for block, back in zip(flat(values).split(256), flat(widened).split(256)):
        largest = block.abs().max()
        assert (block - back).abs().max() <= largest * (0.5 / 127 + rounding) * (1 + 1e-5)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_block_that_is_not_finite_comes_back_as_nan(value):
    values = torch.ones(600, device=DEVICE)
    values[300] = value
    widened = OPS.from_blocks(*OPS.to_blocks(values), torch.float32)
    assert widened.isnan().tolist() == [256 <= place < 512 for place in range(600)]


def test_zeros_and_tiny_values_stay_finite():
    values = torch.zeros(300, device=DEVICE)
    values[280:] = 1e-44
    assert OPS.from_blocks(*OPS.to_blocks(values), torch.float32).abs().max() <= 1e-43


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("every", [1, 2], ids=["dense", "gaps"])
def test_no_number_becomes_infinite_in_a_half_type(half, dtype, every):
    largest = torch.finfo(half).max
    values = torch.tensor([*SPECIAL, 1e-30, largest, 1.5 * largest, -1.5 * largest,
                           torch.finfo(torch.float32).max], dtype=dtype).to(DEVICE)
    if dtype == torch.float64:
        values[-1] = -1e300
    held = OPS.to_finite(values.repeat_interleave(every)[::every], half).to(dtype)
    expected = torch.where(values.isfinite(), values.clamp(-largest, largest), values).to(half)
    assert torch.equal(held.isnan(), values.isnan())
    assert torch.equal(held.nan_to_num(nan=7), expected.to(dtype).nan_to_num(nan=7))
    assert torch.equal(held.isinf(), values.isinf())
