"""Whether a tool's loss, gradients and buffers are those of eager training."""

import copy
import dataclasses
import unittest.mock

import torch

CLOSE = 4  # times what eager's own gradients are from those in double precision
LEAST_ROUNDING = 1e-6
ROWS_OF_ROUNDING = 4
STEP = 1e-3  # by this share of itself the loss is to change where its slope is measured
CONSISTENT = 0.03  # relative error of that slope


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one step gives: tensors by name, and the loss. In the host's memory."""

    loss: torch.Tensor
    gradients: dict
    buffers: dict

    @staticmethod
    def of(module, loss, gradients):
        copies = [{name: kept(value) for name, value in tensors}
                  for tensors in (gradients.items(), module.named_buffers())]
        return Outcome(kept(loss), *copies)


def kept(value):
    return value.detach().to("cpu", copy=True)


def exact(ours, theirs):
    """Bit for bit; tensors by name."""
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in theirs)


def relative_error(ours, theirs):
    """Of the tensors, taken together as one vector."""
    if ours.keys() != theirs.keys():
        return float("inf")
    distance = sum(float((ours[k].double() - theirs[k].double()).square().sum()) for k in theirs)
    size = sum(float(value.double().square().sum()) for value in theirs.values())
    return (distance / size) ** 0.5


def rounding_of(case, autocast):
    """How far eager's gradients are from those in double precision, as a share of them: of a few
    rows of the batch, as the whole may not fit, and without dropout, whose masks depend on the
    type. `autocast()` is the context in which eager computes."""
    module = copy.deepcopy(case.module)
    for part in module.modules():
        if isinstance(part, torch.nn.modules.dropout._DropoutNd):
            part.p = 0.0  # attention reads it
    rows = [x[:ROWS_OF_ROUNDING] for x in case.inputs]
    with unittest.mock.patch("torch.nn.functional.dropout", lambda x, *_, **__: x):
        with autocast():
            eager = gradients_of(module, rows)
        exact_ones = gradients_of(module.double(), [
            x.double() if x.is_floating_point() else x for x in rows])
    return max(LEAST_ROUNDING, relative_error(eager, exact_ones))


def gradients_of(module, inputs):
    module.zero_grad(set_to_none=True)
    module(*inputs).backward()
    return {name: p.grad.cpu() for name, p in module.named_parameters() if p.grad is not None}


def slope_error(case, loss, outcome):
    """How far the gradients are from the slope of the loss along them, as a share of it.

    `loss()` draws the same random numbers at each call. By central differences; the parameters
    are as before when it returns.
    """
    parameters = dict(case.module.named_parameters())
    norm = sum(float(g.double().square().sum()) for g in outcome.gradients.values()) ** 0.5
    before = {name: p.detach().clone() for name, p in parameters.items()}
    step = STEP * float(outcome.loss) / norm

    def loss_at(distance):
        with torch.no_grad():
            for name, gradient in outcome.gradients.items():
                change = gradient.to(before[name].device) * (distance / norm)
                parameters[name].copy_(before[name] + change)
        return float(loss().detach())

    slope = (loss_at(step) - loss_at(-step)) / (2 * step)
    loss_at(0)
    return abs(slope / norm - 1)


def judge_gradients(case, loss, outcome, reference, rounding):
    """(verdict, relative error) of loss and gradients beside eager's, which are `reference`.

    "exact": equal bits. "close": they differ by rounding. "own draws": those of other random
    numbers, and right for them. "WRONG": none of these.
    """
    if torch.equal(outcome.loss, reference.loss) and exact(outcome.gradients, reference.gradients):
        return "exact", 0.0
    error = relative_error(outcome.gradients, reference.gradients)
    if error <= CLOSE * rounding:
        return "close", error
    consistent = slope_error(case, loss, outcome) <= CONSISTENT
    return ("own draws" if consistent else "WRONG"), error


def judge_buffers(outcome, reference, rounding):
    """As judge_gradients(); a block computed again counts a batch twice in its statistics."""
    if exact(outcome.buffers, reference.buffers):
        return "exact"
    close = relative_error(outcome.buffers, reference.buffers) <= CLOSE * rounding
    return "close" if close else "WRONG"
