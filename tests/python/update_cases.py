"""Models and optimizers, trained beside a plain loop, for updates within the backward pass."""

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from on_device import DEVICE
from torch import nn
from torch_memory import profiled
from wrap_cases import Attention, Convolutions, Deep, Halved, Twice, built, loss_of

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1),
    "adam": torch.optim.Adam,
    "amsgrad of all at once": lambda p: torch.optim.Adam(p, foreach=True, amsgrad=True),
    "fused adamw": lambda p: torch.optim.AdamW(p, fused=True),
    "nadam": torch.optim.NAdam,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
}
MODELS = {
    "convolutions": (Convolutions, lambda: torch.randn(4, 3, 16, 16)),
    "tied": (Attention, lambda: torch.randint(0, 50, (4, 12))),
    "twice": (Twice, lambda: torch.randn(16, 20)),
    "autocast": (Halved, lambda: torch.randn(4, 3, 16, 16)),
    "deep": (Deep, lambda: torch.randn(16, 32)),
}


class WithLoss(nn.Module):
    """Its result is the loss, so that no other code takes memory in a step."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return loss_of(self.inner(x))


def trained(model, optimizer, inputs_of, steps=3, before_step=lambda: None):
    """All that steps leave behind."""
    torch.manual_seed(3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    losses = []
    for _ in range(steps):
        loss = loss_of(model(inputs_of().to(DEVICE)))
        loss.backward()
        losses.append(loss.detach().clone())
        before_step()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    state = [value for parameter in model.parameters()
             for value in optimizer.state.get(parameter, {}).values()
             if isinstance(value, torch.Tensor)]
    return [*losses, *(value.detach().clone() for value in model.state_dict().values()), *state]


def counted_bytes(planned, optimizer, x):
    """What a later step takes, with what is there before it, by a count from outside."""
    def run():
        planned(x).backward()
        optimizer.step()

    for _ in range(2):
        run()
    session_of(planned).release()
    state = [value for held in optimizer.state.values() for value in held.values()]
    existing = sum(value.nbytes for value in [*planned.parameters(), *state, x])
    return existing + profiled(run)[0]


def needed_bytes(model, optimizer, x, **options):
    with pytest.raises(lowtide.InfeasibleError) as refused:
        lowtide.wrap(model, x, 1000, optimizer=optimizer, time_limit=0.3, **options)
    return refused.value.smallest_budget


class Layers(nn.Module):
    """A loss, with activations that are small beside the parameters."""

    def __init__(self, width=128, layers=8):
        super().__init__()
        self.layers = nn.Sequential(*(layer for _ in range(layers)
                                      for layer in (nn.Linear(width, width), nn.Tanh())))

    def forward(self, x):
        return self.layers(x).square().mean()


def layers_of(optimizer):
    model = built(Layers).to(DEVICE)
    return model, optimizer(model.parameters()), torch.randn(4, 128, device=DEVICE)
