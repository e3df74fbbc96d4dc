"""Layers in channels_last, whose kernels lay results out and draw in orders of their own."""

import copy
import itertools
import random

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from sweep import sweep
from torch import nn

pytestmark = [pytest.mark.usefixtures("own_cache", "one_thread"),
              pytest.mark.cpu_only("other devices draw otherwise")]

CHANNELS = 4
LAYERS = {
    "convolution": lambda: nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
    "powers": lambda: nn.LPPool2d(2, 2),
    "cubes": lambda: nn.LPPool2d(3, 2, ceil_mode=True),
    "rrelu": nn.RReLU,
    "rrelu in place": lambda: nn.RReLU(inplace=True),
    "dropout": lambda: nn.Dropout(0.3),
    "of channels": lambda: nn.Dropout2d(0.3),
    "alpha": lambda: nn.AlphaDropout(0.3),
    "all dropped": lambda: nn.AlphaDropout(1.0),
    "alpha in place": lambda: nn.AlphaDropout(0.3, inplace=True),
    "alpha of channels": lambda: nn.FeatureAlphaDropout(0.3),
    "elu": nn.ELU,
}


def step(model, x):
    x = x.clone().requires_grad_()
    torch.manual_seed(3)
    result = model(x)
    result.sum().backward()
    return [result.detach(), x.grad, *(p.grad for p in model.parameters()), torch.get_rng_state()]


def compare(names, budget, dtype=torch.float32):
    torch.manual_seed(1)
    plain = nn.Sequential(*[LAYERS[name]() for name in names])
    plain = plain.to(memory_format=torch.channels_last, dtype=dtype)
    x = torch.rand(2, CHANNELS, 24, 20, dtype=dtype).to(memory_format=torch.channels_last)
    wrapped = lowtide.wrap(copy.deepcopy(plain), budget=budget, optimizer="none", time_limit=0.1)
    got, expected = step(wrapped, x), step(plain, x)
    # Roots of negative numbers are none, in both.
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True, check_stride=True)


@pytest.mark.parametrize("first, last", sweep(
    itertools.product(["powers", "cubes", "convolution"], LAYERS),
    usual=[("powers", "rrelu"), ("convolution", "alpha"), ("convolution", "alpha in place"),
           ("cubes", "rrelu in place"), ("convolution", "all dropped")]))
def test_two_layers_before_a_convolution_are_eager_to_the_bit(first, last):
    compare([first, last, "convolution"], None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_numbers_are_drawn_as_eager_draws_them_in_other_types(dtype):
    compare(["convolution", "alpha", "convolution", "alpha in place"], None, dtype)


@pytest.mark.parametrize("seed", sweep(range(60), usual=range(4)))
def test_random_layers_are_eager_to_the_bit(seed):
    draw = random.Random(seed)
    first = draw.choice([name for name in LAYERS if "in place" not in name])  # of a leaf
    compare([first, *draw.choices(list(LAYERS), k=draw.randint(2, 4))],
            draw.choice(["100%", None]))


class OnePixel(nn.Module):
    """The last block of a ConvNeXt, where images have shrunk to one pixel."""

    def __init__(self, channels=16):
        super().__init__()
        self.mix = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)

    def forward(self, x):
        x = self.norm(self.mix(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.mix(x).square().mean()


class ShrunkToOnePixel(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, channels, 3, stride=2, padding=1),
                                    nn.BatchNorm2d(channels), nn.ReLU(),
                                    nn.Conv2d(channels, channels, 3, padding=1, groups=channels))

    def forward(self, x):
        return self.layers(x).square().mean()


@pytest.mark.parametrize("make, x", [
    (OnePixel, torch.ones(4, 16, 1, 1)),
    (ShrunkToOnePixel, torch.ones(4, 3, 2, 2).to(memory_format=torch.channels_last))],
    ids=["norm over channels", "norm over images"])
def test_images_of_one_pixel_run_by_the_kernels_that_were_measured(make, x):
    """An image of one pixel lies alike in both formats; its strides say which kernel runs."""
    model = make().to(memory_format=torch.channels_last if x.shape[1] == 3 else
                      torch.contiguous_format)
    wrapped = lowtide.wrap(model, x, optimizer="none", time_limit=0.1)
    wrapped(x).backward()
    [region] = session_of(wrapped).regions
    assert [line for executor in region.executors for line in executor.overruns] == []
