"""Hooks that are registered and removed after a model was wrapped, called or compiled."""

import itertools

import lowtide
import pytest
import torch
from sweep import sweep
from torch import nn
from wrap_cases import ROWS, built, same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


def model():
    return nn.Sequential(nn.Linear(20, 20), nn.Sequential(nn.Tanh(), nn.Linear(20, 20)))


def wrapped_before_the_first_call(module):
    return lowtide.wrap(module, ROWS())


def wrapped_without_inputs(module):
    return lowtide.wrap(module)


def compiled(module):
    return torch.compile(module, backend="lowtide")


DOORS = (wrapped_before_the_first_call, wrapped_without_inputs, compiled)

#: By name: registers a hook that changes what is computed.
HOOKS = {
    "forward": lambda m: m.register_forward_hook(lambda _, given, result: result * 2),
    "forward pre": lambda m: m.register_forward_pre_hook(lambda _, given: (given[0] + 1,)),
    "forward with keywords": lambda m: m.register_forward_hook(
        lambda _, given, named, result: result - 1, with_kwargs=True),
}


def gradients(called, module):
    torch.manual_seed(2)
    loss = called(*ROWS()).pow(2).mean()
    loss.backward()
    found = [loss.detach(), *(parameter.grad for parameter in module.parameters())]
    module.zero_grad()
    return found


#: Of the module, of its first layer, and of a layer within a layer.
PLACES = ("", "0", "1.0")

#: Every pair of a door, a hook and a place is in one of these.
PAIRWISE = [(door, hook, PLACES[(i + j) % 3])
            for i, door in enumerate(DOORS) for j, hook in enumerate(HOOKS)]


@pytest.mark.parametrize("door, hook, place", sweep(
    itertools.product(DOORS, HOOKS, PLACES), usual=PAIRWISE))
def test_a_hook_registered_late_runs_until_it_is_removed(door, hook, place):
    module, plain = built(model), built(model)
    called = door(module)
    gradients(called, module)
    handles = [HOOKS[hook](one.get_submodule(place)) for one in (module, plain)]
    assert same(gradients(called, module), gradients(plain, plain))
    for handle in handles:
        handle.remove()
    assert same(gradients(called, module), gradients(plain, plain))
