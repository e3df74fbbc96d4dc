"""Optimizers of parameters on several ranks, which step what is here."""

import copy
import importlib

import pytest
import torch
from lowtide.pytorch.optimizer.step_here import step_here
from shards_cases import mesh_of
from sweep import sweep
from torch.distributed.tensor import DTensor, Replicate, Shard

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")

KINDS = {
    "adamw": lambda given: torch.optim.AdamW(given, lr=0.1),
    "foreach": lambda given: torch.optim.Adam(given, lr=0.1, foreach=True, amsgrad=True),
    "sgd": lambda given: torch.optim.SGD(given, lr=0.1, momentum=0.9, weight_decay=0.1),
    "groups": lambda given: torch.optim.RMSprop([{"params": given[:1]},
                                                 {"params": given[1:], "lr": 0.3}]),
    "asgd": lambda given: torch.optim.ASGD(given, lr=0.1)}
STEPS = 3


class Stopped(Exception):
    pass


def stop(*_, **__):
    raise Stopped


def made(rank, ranks, seed):
    """A shard of which the last rank has fewer rows, a copy, and one that gets no gradient."""
    generator = torch.Generator().manual_seed(seed)
    mesh, whole = mesh_of(ranks), torch.randn(5, 3, generator=generator)
    rows = whole.chunk(ranks)[rank].clone()
    return [DTensor.from_local(rows, mesh, [Shard(0)], run_check=False, shape=whole.shape,
                               stride=whole.stride()),
            DTensor.from_local(torch.randn(4, generator=generator), mesh, [Replicate()],
                               run_check=False),
            DTensor.from_local(torch.ones(2), mesh, [Replicate()], run_check=False)]


def stepper(rank, ranks, kind, is_here):
    parameters = [torch.nn.Parameter(tensor) for tensor in made(rank, ranks, 0)]
    optimizer = KINDS[kind](parameters)
    if is_here:
        step_here(optimizer)
    return parameters, optimizer


def set_gradients(rank, ranks, parameters, step):
    for parameter, gradient in zip(parameters[:2], made(rank, ranks, 1 + step)):
        parameter.grad = gradient


def here(value):
    """What is on this rank, and how it lies."""
    if isinstance(value, DTensor):
        return value._local_tensor.clone(), value.placements, value.shape
    return value.clone() if isinstance(value, torch.Tensor) else value


def stepped(rank, ranks, kind, is_here):
    parameters, optimizer = stepper(rank, ranks, kind, is_here)
    kinds = []
    optimizer.register_step_post_hook(
        lambda _, arguments, named: kinds.append(
            {type(one) for group in arguments[0].param_groups for one in group["params"]}))
    for step in range(STEPS):
        set_gradients(rank, ranks, parameters, step)
        optimizer.step()
        optimizer.zero_grad()
    state = {place: {name: here(value) for name, value in optimizer.state[parameter].items()}
             for place, parameter in enumerate(parameters) if parameter in optimizer.state}
    return [here(parameter.detach()) for parameter in parameters], state, kinds


def require_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
        for key, value in found.items():
            require_same(value, expected[key])
    elif isinstance(found, (list, tuple)) and not isinstance(found, torch.Size):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            require_same(one, other)
    elif isinstance(found, torch.Tensor):
        assert torch.equal(found, expected)
    else:
        assert found == expected


@pytest.mark.parametrize("kind", sweep(KINDS, usual=["adamw", "groups"]))
def test_steps_have_the_same_bits_on_plain_tensors(two, kind):
    found, expected = two.run(stepped, 2, kind, True), two.run(stepped, 2, kind, False)
    for (parameters, state, kinds), (others, held, _) in zip(found, expected):
        assert kinds == [{torch.Tensor}] * STEPS
        require_same(parameters, others)
        require_same(state, held)


def interrupted(rank, ranks, is_interrupted):
    """A step that fails when some parameters have state, then whole ones."""
    parameters, optimizer = stepper(rank, ranks, "adamw", True)
    set_gradients(rank, ranks, parameters, 0)
    if is_interrupted:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
            patch.setattr(importlib.import_module("torch.optim.adam"), "adam", stop)
            optimizer.step()
        set_gradients(rank, ranks, parameters, 0)
    optimizer.step()
    kinds = {type(value) for value in optimizer.state_dict()["state"][0].values()}
    return [here(parameter.detach()) for parameter in parameters], kinds


def test_a_step_that_fails_leaves_state_that_lies_on_the_ranks(two):
    for found, expected in zip(two.run(interrupted, 2, True), two.run(interrupted, 2, False)):
        require_same(found, expected)
        assert found[1] == {torch.Tensor, DTensor}


def loaded_after_failure(rank, ranks):
    """Whether what is loaded after a step that failed stays."""
    parameters, optimizer = stepper(rank, ranks, "adamw", True)
    set_gradients(rank, ranks, parameters, 0)
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    optimizer.state.clear()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(importlib.import_module("torch.optim.adam"), "adam", stop)
        optimizer.step()
    optimizer.load_state_dict(saved)
    optimizer.step()
    return optimizer.state[parameters[0]]["step"].item()


def test_a_state_that_is_loaded_after_a_step_that_failed_counts(two):
    assert two.run(loaded_after_failure, 2) == [2.0, 2.0]


def with_closure(rank, ranks):
    parameters, optimizer = stepper(rank, ranks, "sgd", True)
    before = here(parameters[0].detach())[0]
    loss = optimizer.step(lambda: set_gradients(rank, ranks, parameters, 0) or 7)
    return loss, torch.equal(here(parameters[0].detach())[0], before)


def test_a_closure_makes_gradients_within_the_step(two):
    assert two.run(with_closure, 2) == [(7, False)] * 2


def saved_before(rank, ranks):
    parameters, optimizer = stepper(rank, ranks, "sgd", True)
    set_gradients(rank, ranks, parameters, 0)
    loss = (parameters[1] * parameters[1]).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    return True


def test_what_a_step_wrote_is_known_to_autograd(two):
    assert all(two.run(saved_before, 2))
