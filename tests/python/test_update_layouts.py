"""Updates within the backward pass by gradients laid out otherwise than their parameters."""

import lowtide
import pytest
import torch
from torch import nn
from update_cases import OPTIMIZERS, counted_bytes, needed_bytes, trained
from wrap_cases import built, same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


class ChannelsLast(nn.Module):
    """Convolutions of pictures whose channels lie together: so do those of their gradients."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(8, 64, 2, 2), nn.Tanh(), nn.Conv2d(64, 64, 2, 2))

    def forward(self, x):
        return self.layers(x.permute(0, 3, 1, 2)).square().mean()


def pictures():
    return torch.randn(2, 8, 8, 8)


def case(kind):
    model = built(ChannelsLast)
    return model, OPTIMIZERS[kind](model.parameters())


HOW = [True, lowtide.FusedUpdate(max_norm=0.01)]


@pytest.mark.cpu_only("the profiler counts what the CPU's allocator hands out")
@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("kind", ["momentum", "adam", "fused adamw"])
def test_a_step_is_within_the_budget(kind, how):
    model, optimizer = case(kind)
    x = pictures()
    budget = needed_bytes(model, optimizer, x, fused_update=how)
    planned = lowtide.wrap(model, x, budget, optimizer=optimizer, fused_update=how, time_limit=0.3)
    assert counted_bytes(planned, optimizer, x) <= budget


@pytest.mark.parametrize("kind", ["momentum", "adam", "fused adamw"])
def test_state_has_the_bits_and_the_layout_of_a_plain_loop(kind):
    steps, layouts = [], []
    for fused_update in (False, True):
        model, optimizer = case(kind)
        if fused_update:
            model = lowtide.wrap(model, pictures(), optimizer=optimizer, fused_update=True,
                                 time_limit=0.3)
        steps.append(trained(model, optimizer, pictures))
        layouts.append([value.stride() for parameter in model.parameters()
                        for value in optimizer.state[parameter].values()
                        if isinstance(value, torch.Tensor)])
    assert same(*steps) and layouts[0] == layouts[1]
