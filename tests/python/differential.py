"""Random modules, loops, types and budgets: trained beside eager PyTorch, compared bit for bit.

    python tests/python/differential.py --seconds 3600 --seed 7

What docs/explanation/exactness.md lists as rounded otherwise is not drawn.
"""

import argparse
import contextlib
import copy
import random
import time
import warnings

import lowtide
import torch
from on_device import DEVICE, generator_state
from torch import nn

WIDTH, ROWS, LENGTH = 24, 6, 8


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Heads(nn.Module):
    """Several results, of which a loss may use some."""

    def __init__(self, body):
        super().__init__()
        self.body, self.first, self.second = body, nn.Linear(WIDTH, 5), nn.Linear(WIDTH, 7)

    def forward(self, x):
        x = self.body(x)
        return self.first(x), self.second(x)


class Attention(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout, batch_first=True)
        self.layer.self_attn.dropout = 0.0

    def forward(self, x):
        return self.layer(x)


class Normalized(nn.Module):
    """Batch norm over rows and positions."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class AddedInPlace(nn.Module):
    """Writes over what it made, and over a slice of it."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        y = self.linear(x).add_(x)
        y[..., ::2].mul_(0.5)
        return y.relu_()


class AlongPositions(nn.Module):
    """A convolution over positions."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=2)

    def forward(self, x):
        return self.convolution(x.transpose(1, 2)).transpose(1, 2)


class Cells(nn.Module):
    """An LSTM of cells, which writes its state anew for each position."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(WIDTH, WIDTH)

    def forward(self, x):
        state, seen = None, []
        for position in x.unbind(1):
            state = self.cell(position, state)
            seen.append(state[0])
        return torch.stack(seen, 1)


PIECES = (
    lambda draw: nn.Linear(WIDTH, WIDTH), lambda draw: nn.GELU(), lambda draw: nn.Tanh(),
    lambda draw: nn.ReLU(), lambda draw: nn.LayerNorm(WIDTH),
    lambda draw: nn.Dropout(draw.choice([0.1, 0.5])), lambda draw: Normalized(),
    lambda draw: Attention(draw.choice([0.0, 0.2])),
    lambda draw: Residual(nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.SiLU(),
                                        nn.Linear(2 * WIDTH, WIDTH))),
    lambda draw: AddedInPlace(), lambda draw: AlongPositions())
#: They use a parameter several times in one call.
SHARING_PIECES = (lambda draw: Cells(),)


def module_from(draw, case, most=7):
    choices = PIECES + (SHARING_PIECES if case.may_share else ())
    pieces = [draw.choice(choices)(draw) for _ in range(draw.randint(2, most))]
    return Heads(nn.Sequential(nn.Linear(WIDTH, WIDTH), *pieces))


def trained(model, case, seed, device=DEVICE, each_pass=contextlib.nullcontext):
    """All that a few steps leave behind, on the CPU. Every device gets the same batches.
    ``each_pass``: makes a context for each forward pass with its backward pass."""
    torch.manual_seed(seed)
    batches = torch.Generator("cpu").manual_seed(seed)
    optimizer = case.optimizer(model.parameters())
    left = []
    for step in range(3):
        if step == 1 and case.late_hook:
            model.body[0].register_forward_hook(lambda module, given, result: result * 0.5)
        for _ in range(case.passes):
            x = torch.randn(case.rows[step], LENGTH, WIDTH, dtype=case.dtype, device="cpu",
                            generator=batches).to(device)
            with each_pass():
                with case.context(device):
                    results = model(x)
                loss = sum(results[position].float().pow(2).mean() for position in case.used)
                loss.backward()
            left.append(loss.detach().cpu())
        left += [torch.zeros(()) if p.grad is None else p.grad.to("cpu", copy=True)
                 for p in model.parameters()]
        left += [torch.tensor(p.grad is None) for p in model.parameters()]
        optimizer.step()
        optimizer.zero_grad()
    state = [value.to("cpu", copy=True) for value in model.state_dict().values()]
    return [*left, *state, generator_state(device)]


def fixed(kind, **options):
    """A class of optimizers that has these options."""
    class Fixed(kind):
        def __init__(self, parameters):
            super().__init__(parameters, **options)

    return Fixed


#: PyTorch chooses ``foreach`` by the type of device, and it rounds otherwise in half types.
OPTIMIZERS = tuple(fixed(kind, foreach=foreach, **options) for foreach in (False, True)
                   for kind, options in ((torch.optim.AdamW, {}),
                                         (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9})))


class Case:
    """What is drawn in addition to the module."""

    def __init__(self, draw):
        self.dtype = draw.choice([torch.float32, torch.float32, torch.float64, torch.bfloat16])
        half = draw.choice([torch.bfloat16, torch.float16])
        autocast = self.dtype == torch.float32 and draw.random() < 0.3
        self.context = ((lambda device: torch.autocast(device, half)) if autocast
                        else contextlib.nullcontext)
        self.half = half if autocast else None
        self.passes = draw.choice([1, 1, 2])
        self.may_share = not autocast and self.passes == 1
        self.rows = draw.choice([[ROWS] * 3, [ROWS, ROWS - 2, ROWS]])
        self.used = draw.choice([(0, 1), (0,), (1,)])
        self.late_hook = draw.random() < 0.2
        self.budget = draw.choice([None, "90%", "70%"])
        self.optimizer = draw.choice(OPTIMIZERS)

    def __str__(self):
        return str(vars(self))


def as_wrap_has_it(case, seed):
    """The precision that wrap is given, and the case of its caller, for whom no autocast is left.
    Every other mixed precision is one of wrap's."""
    if case.half is None or seed % 2:
        return None, case
    inside = copy.copy(case)
    inside.context = contextlib.nullcontext
    return {torch.bfloat16: "bf16", torch.float16: "fp16"}[case.half], inside


def differs(seed):
    """What the seed drew, where it is not trained as eager PyTorch does; else None."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    case = Case(draw)
    plain = module_from(draw, case).to(case.dtype)
    precision, own_case = as_wrap_has_it(case, seed)
    wrapped = lowtide.wrap(copy.deepcopy(plain), budget=case.budget, time_limit=0.3, cache=False,
                           when_infeasible="warn", precision=precision)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got, expected = trained(wrapped, own_case, seed), trained(plain, case, seed)
    if len(got) == len(expected) and all(map(torch.equal, got, expected)):
        return None
    return f"seed {seed}: {case}, precision={precision}\n{plain}"


def run(seconds, seed):
    """How many cases were tried, and the first that differs."""
    end, tried = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        found = differs(seed + tried)
        tried += 1
        if found is not None:
            return tried, found
    return tried, None


def begun(description):
    """The arguments of a program that trains at random: how long, and from which seed on."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    torch.set_num_threads(1)
    return parser.parse_args()


def main():
    arguments = begun(__doc__)
    tried, found = run(arguments.seconds, arguments.seed)
    print(f"{tried} trainings, " + ("all as eager to the bit" if found is None else found))
    raise SystemExit(found is not None)


if __name__ == "__main__":
    main()
