"""Hooks that are registered and removed after a model was wrapped, called or compiled."""

import contextlib
import itertools

import lowtide
import pytest
import torch
from sweep import sweep
from torch import nn
from torch.nn.modules import module as modules
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


def doubled(module, given, result):
    return result * 2 if isinstance(module, nn.Linear) else None


def moved(module, given):
    return (given[0] + 1,) if isinstance(module, nn.Linear) else None


def halved(module, gradients, _):
    return (gradients[0] / 2,) if isinstance(module, nn.Tanh) else None


#: By name: registers a hook of all modules that changes what is computed.
HOOKS_OF_ALL_MODULES = {
    "forward": lambda: modules.register_module_forward_hook(doubled),
    "forward pre": lambda: modules.register_module_forward_pre_hook(moved),
    "backward": lambda: modules.register_module_full_backward_hook(halved),
}


@pytest.mark.filterwarnings("ignore:Sequential ran without a plan", "ignore:Full backward hook is")
@pytest.mark.parametrize("door", DOORS[:2])
@pytest.mark.parametrize("hook", HOOKS_OF_ALL_MODULES)
def test_a_hook_of_all_modules_registered_late_runs_until_it_is_removed(hook, door):
    module, plain = built(model), built(model)
    called = door(module)
    before = gradients(called, module)
    with contextlib.ExitStack() as registered:
        for _ in range(2):
            registered.enter_context(HOOKS_OF_ALL_MODULES[hook]())
            hooked = gradients(plain, plain)
            assert same(gradients(called, module), hooked) and not same(before, hooked)
    assert same(gradients(called, module), before)
