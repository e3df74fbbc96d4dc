"""Models as rows of blocks for tests of pipelines, and what ranks do with them."""

import copy

import lowtide
import torch
import torch.distributed as dist
from torch import nn
from torch_memory import profiled


class Residual(nn.Module):
    def __init__(self, width, inner, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.down(self.dropout(torch.tanh(self.up(self.norm(x)))))


class TwoResults(nn.Module):
    """Takes one tensor or two, and returns two."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x, y=None):
        x = torch.relu(self.linear(x))
        return x, x * 2 if y is None else x + y


class Joined(nn.Module):
    def forward(self, x, y):
        return x - y


def residuals(blocks=4, width=16, inner=48, dropout=0.0, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(*[Residual(width, inner, dropout) for _ in range(blocks)])


def batch_of(rows, width, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, width, generator=generator),
            torch.randn(rows, width, generator=generator))


def loss_fn(result, target):
    return torch.nn.functional.mse_loss(result, target)


def called(model, value):
    """The blocks one after another: what returns several tensors gives the next one as many."""
    for block in model:
        value = block(*value) if isinstance(value, tuple) else block(value)
    return value


def eager_steps(model, batch, micro_batches, steps, lr=0.1):
    """Losses, gradients and parameters of steps in one process: gradients of micro-batches are
    added in their order, and the sum is divided by their number."""
    model = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        for inputs, targets in zip(*(value.chunk(micro_batches) for value in batch)):
            loss = loss_fn(called(model, inputs), targets)
            loss.backward()
            losses.append(loss.detach())
        for parameter in model.parameters():
            parameter.grad.div_(micro_batches)
        optimizer.step()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return torch.stack(losses), gradients, dict(model.state_dict())


def pipelined_steps(model, batch, steps, options, lr=0.1):
    """The same of this rank's part; its peak as PyTorch's allocator counts it, with what existed
    before; and the pipeline's own figures."""
    settings = {"optimizer": "sgd-momentum", "time_limit": 1.0, "verbose": False, **options}
    pipe = lowtide.pipeline(model, batch, loss_fn=loss_fn, **settings)
    optimizer = torch.optim.SGD(pipe.parameters(), lr=lr, momentum=0.9)
    has_first, has_last = dist.get_rank() == 0, dist.get_rank() == dist.get_world_size() - 1
    batch = batch[0] if has_first else None, batch[1] if has_last else None
    before = (sum(value.nbytes for value in pipe.state_dict().values())
              + sum(value.nbytes for value in batch if value is not None))
    losses = []
    torch.manual_seed(3)

    def run():
        for _ in range(steps):
            pipe.zero_grad()
            losses.append(pipe.step(*batch))
            optimizer.step()

    peak, _, _ = profiled(run)
    gradients = {name: parameter.grad.clone() for name, parameter in pipe.named_parameters()}
    state = {key: value.clone() for key, value in pipe.state_dict().items()}
    figures = {"peak": before + peak, "planned": pipe.planned_bytes, "cuts": pipe.cuts,
               "explain": pipe.explain(), "reruns": [one.reruns for one in pipe.stages],
               "waiting": [one.waiting for one in pipe.stages],
               "bubble": pipe.predicted.bubble, "measured": pipe.measured_bubble}
    return torch.cat(losses), gradients, state, figures
