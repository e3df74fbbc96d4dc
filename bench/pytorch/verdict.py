"""Whether a tool's loss, gradients and buffers are those of eager training."""

import dataclasses

import torch

CLOSE = 1e-3  # relative error of all gradients together
CONSISTENT = 0.02  # relative error of the loss's slope along the gradients
STRIDE = 0.02  # how far along the normalized gradients the slope looks


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one step gives: tensors by name, and the loss."""

    loss: torch.Tensor
    gradients: dict
    buffers: dict

    @staticmethod
    def of(module, loss):
        gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
        copies = [{name: value.detach().clone() for name, value in tensors}
                  for tensors in (gradients.items(), module.named_buffers())]
        return Outcome(loss.detach().clone(), *copies)


def exact(ours, theirs):
    """Bit for bit; tensors by name."""
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in theirs)


def relative_error(ours, theirs):
    """Of the tensors, taken together as one vector."""
    if ours.keys() != theirs.keys():
        return float("inf")
    distance = sum(float((ours[k].double() - theirs[k].double()).square().sum()) for k in theirs)
    return (distance / sum(float(value.double().square().sum()) for value in theirs.values())) ** 0.5


def slope_error(case, loss, gradients):
    """How far the gradients are from the slope of the loss along them, as a share of it.

    `loss()` draws the same random numbers at each call. By central differences; the parameters
    are as before when it returns.
    """
    parameters = dict(case.module.named_parameters())
    norm = sum(float(g.double().square().sum()) for g in gradients.values()) ** 0.5
    before = {name: p.detach().clone() for name, p in parameters.items()}

    def loss_at(distance):
        with torch.no_grad():
            for name, gradient in gradients.items():
                parameters[name].copy_(before[name] + gradient * (distance / norm))
        return float(loss().detach())

    slope = (loss_at(STRIDE) - loss_at(-STRIDE)) / (2 * STRIDE)
    loss_at(0)
    return abs(slope / norm - 1)


def judge_gradients(case, loss, outcome, reference):
    """(verdict, relative error) of loss and gradients.

    "exact": equal bits. "close": they differ by rounding. "own draws": those of other random
    numbers, and right for them. "WRONG": none of these.
    """
    if torch.equal(outcome.loss, reference.loss) and exact(outcome.gradients, reference.gradients):
        return "exact", 0.0
    error = relative_error(outcome.gradients, reference.gradients)
    if error <= CLOSE:
        return "close", error
    consistent = slope_error(case, loss, outcome.gradients) <= CONSISTENT
    return ("own draws" if consistent else "WRONG"), error


def judge_buffers(outcome, reference):
    """As judge_gradients(); a block computed again counts a batch twice in its statistics."""
    if exact(outcome.buffers, reference.buffers):
        return "exact"
    close = relative_error(outcome.buffers, reference.buffers) <= CLOSE
    return "close" if close else "WRONG"
