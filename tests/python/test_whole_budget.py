"""A budget of 100% keeps every value, whatever the model and the optimizer."""

import random
import warnings

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from sweep import sweep
from torch import nn

pytestmark = [pytest.mark.usefixtures("own_cache", "one_thread"),
              pytest.mark.cpu_only("the sizes are those of the CPU's layouts")]

OPTIMIZERS = {
    "none": lambda parameters: "none",
    "adam by name": lambda parameters: "adam",
    "lion by name": lambda parameters: "lion",
    "a class": lambda parameters: torch.optim.AdamW,
    "adam": lambda parameters: torch.optim.Adam(parameters, amsgrad=True),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, momentum=0.9),
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.1),
}


class Parts(nn.Module):
    """Layers of random widths, with or without a graph break in the middle."""

    def __init__(self, draw):
        super().__init__()
        widths = [draw.randint(1, 700) for _ in range(draw.randint(2, 5))]
        layers = [layer for pair in zip(widths, widths[1:]) for layer in (
            nn.Linear(*pair, bias=draw.random() < 0.5),
            draw.choice([nn.Tanh(), nn.ReLU(), nn.GELU(), nn.Dropout(0.3)]))]
        self.breaks = draw.random() < 0.3
        self.first = nn.Sequential(*layers[:2])
        self.others = nn.Sequential(*layers[2:])
        self.input = widths[0]

    def forward(self, x):
        x = self.first(x)
        if self.breaks:
            torch._dynamo.graph_break()
        return self.others(x)


@pytest.mark.parametrize("seed", sweep(range(80), usual=range(10)))
def test_it_is_feasible_and_costs_nothing(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    model = Parts(draw)
    optimizer = OPTIMIZERS[draw.choice(list(OPTIMIZERS))](list(model.parameters()))
    x = torch.randn(draw.randint(1, 16), model.input)
    wrapped = lowtide.wrap(model, budget="100%", optimizer=optimizer, time_limit=0.2,
                           cache=False, batches_ahead=draw.randint(0, 1))
    with warnings.catch_warnings():
        # The optimizer's room is foreseen for one graph alone.
        warnings.simplefilter("ignore" if model.breaks else "error", UserWarning)
        for _ in range(3):
            wrapped(x).sum().backward()
            wrapped.zero_grad()
    session = session_of(wrapped)
    for region in session.regions:
        assert session.plan_for(region).cost == region.priced.keep_all_cost
    assert wrapped.memory.planned_peak <= wrapped.memory.budget
