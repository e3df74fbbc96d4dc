"""What an optimizer will hold is what it holds once it has made a step."""

import lowtide
import pytest
import torch
from lowtide.pytorch.budget.optimizer_state import STATES, optimizer_state_bytes
from lowtide.pytorch.optimizer.stand_in import stand_in
from torch import nn

OPTIMIZERS = [
    torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adamax, torch.optim.NAdam,
    torch.optim.RAdam, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Adadelta,
    torch.optim.Rprop,
]
OPTIONS = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "amsgrad": lambda p: torch.optim.Adam(p, amsgrad=True),
    "centered": lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.5),
    "momentum of a group": lambda p: torch.optim.SGD(
        [{"params": p[:1], "momentum": 0.9}, {"params": p[1:]}], lr=0.1),
    "amsgrad of a group": lambda p: torch.optim.Adam(
        [{"params": p[:2]}, {"params": p[2:], "amsgrad": True}]),
}


def before_and_after(make):
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    parameters = list(model.parameters())
    optimizer = make(parameters)
    before = optimizer_state_bytes(optimizer, parameters)
    model(torch.randn(2, 64)).sum().backward()
    optimizer.step()
    held = [value for state in optimizer.state.values() for value in state.values()
            if isinstance(value, torch.Tensor)]
    return before, sum(value.nbytes for value in held), parameters


@pytest.mark.parametrize("kind", OPTIMIZERS, ids=lambda kind: kind.__name__)
def test_classes_and_names(kind):
    before, after, parameters = before_and_after(lambda p: kind(p, lr=0.1))
    # Two small numbers for each parameter at most beside those of its own size.
    assert after - 8 * len(parameters) <= before <= after + 8 * len(parameters)
    if kind.__name__.lower() in STATES:
        assert optimizer_state_bytes(kind.__name__.lower(), parameters) == before


@pytest.mark.parametrize("option", OPTIONS)
def test_options_that_add_state(option):
    before, after, parameters = before_and_after(OPTIONS[option])
    assert after - 8 * len(parameters) <= before <= after + 8 * len(parameters)


def test_without_an_optimizer_adam_is_assumed():
    parameters = [torch.zeros(100, requires_grad=True)]
    assert optimizer_state_bytes(None, parameters) == 2 * 400 + 4


class Averaging(torch.optim.SGD):
    """One of somebody else's, with a state that no table knows."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state.setdefault("rows", parameter.detach().clone())
                state.setdefault("average", parameter.detach().clone())


class Wanting(Averaging):
    def __init__(self, parameters, needed):
        super().__init__(parameters)


def test_a_class_that_is_not_known_is_tried():
    before, after, parameters = before_and_after(lambda p: Averaging(p, lr=0.1))
    assert before == after == optimizer_state_bytes(Averaging, parameters)
    assert optimizer_state_bytes(Averaging, []) == 0


class Required(Averaging):
    def __init__(self, parameters, lr):
        super().__init__(parameters, lr)


def test_options_that_a_class_requires_are_those_of_its_groups():
    before, after, _ = before_and_after(lambda p: Required(p, 0.1))
    assert before == after


def test_only_its_name_says_nothing_of_somebody_elses_class():
    kind = type("AdamW", (Averaging,), {})
    before, after, parameters = before_and_after(lambda p: kind(p, lr=0.1))
    assert before == after == optimizer_state_bytes(kind, parameters)


@pytest.mark.parametrize("kind", [torch.optim.Adam, Averaging], ids=["known", "tried"])
def test_state_of_parameters_that_were_frozen_is_to_come(kind):
    parameters = [nn.Parameter(torch.ones(64)), nn.Parameter(torch.ones(32))]
    optimizer = kind(parameters)
    whole = optimizer_state_bytes(optimizer, parameters)
    for trained in (0, 1):
        parameters[trained].grad = torch.ones_like(parameters[trained])
        parameters[1 - trained].requires_grad_(False)
        optimizer.step()
        parameters[1 - trained].requires_grad_(True)
        assert optimizer_state_bytes(optimizer, parameters) == whole


def test_a_class_that_cannot_be_tried_counts_as_adam():
    parameters = [torch.zeros(100, requires_grad=True)]
    with pytest.warns(UserWarning, match="could not be tried"):
        assert optimizer_state_bytes(Wanting(parameters, 3), parameters) == 2 * 400


def test_an_unknown_name():
    with pytest.raises(lowtide.InputError, match="sgd-momentum"):
        optimizer_state_bytes("adm", [])


def rippled(x):
    return (torch.sin(7 * x) * x).sum() + 0.05 * x.square().sum()


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def bowl(x):
    return (torch.logspace(0, 3, len(x)) * x * x).sum()


class Growing(torch.optim.LBFGS):
    """One of somebody else's."""

    def step(self, closure):
        return super().step(closure)


@pytest.mark.parametrize("loss", [rippled, rosenbrock, bowl])
@pytest.mark.parametrize("history, line_search, iterations", [
    (1, None, 20), (7, None, 3), (7, "strong_wolfe", 20), (12, "strong_wolfe", 4)])
def test_a_history_counts_as_long_as_it_gets(loss, history, line_search, iterations):
    """Whatever is held while LBFGS runs the model, step by step, and no more than it can be."""
    parameter = nn.Parameter(torch.linspace(0.5, 1.5, 3000))
    optimizer = torch.optim.LBFGS([parameter], lr=1 if line_search else 0.01, max_iter=iterations,
                                  history_size=history, line_search_fn=line_search)
    before = optimizer_state_bytes(optimizer, [parameter])
    parameter.grad = torch.zeros_like(parameter)
    existing = lowtide._runtime.taken_bytes("cpu")
    held = [0]

    def closure():
        held.append(lowtide._runtime.taken_bytes("cpu") - existing)
        value = loss(parameter)
        parameter.grad.copy_(*torch.autograd.grad(value, parameter))
        return value.detach()

    for _ in range(12):
        optimizer.step(closure)
    assert (2 * history + 2) * parameter.nbytes <= max(held) <= before
    assert before <= max(held) + 6.1 * parameter.nbytes
    assert optimizer_state_bytes(optimizer, [parameter]) == before


def test_a_history_counts_for_a_class_and_for_one_of_somebody_elses():
    parameters = [torch.zeros(500, requires_grad=True), torch.zeros(300, requires_grad=True)]
    known = optimizer_state_bytes(torch.optim.LBFGS(parameters), parameters)
    assert optimizer_state_bytes(torch.optim.LBFGS, parameters) == known >= 202 * 4 * 800
    assert optimizer_state_bytes(Growing(parameters, history_size=100), parameters) == known


def test_hooks_of_a_stand_in_are_its_own():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))])
    stepped = []
    optimizer.register_step_pre_hook(lambda *_: stepped.append("every step"))
    other = stand_in(optimizer, [optimizer.param_groups[0]["params"]], {})
    other.register_step_pre_hook(lambda *_: stepped.append("of the stand-in"))
    optimizer.step()
    assert stepped == ["every step"]
    other.step()
    assert stepped == ["every step"] * 2 + ["of the stand-in"]
