"""The device has no memory left at some request of a step: an error, and the training goes on."""

import copy
import itertools

import lowtide
import pytest
import torch
from lowtide.pytorch import simulated
from torch import nn

DEVICE = "simulated"

pytestmark = pytest.mark.usefixtures("own_cache")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(layer for _ in range(4)
                                      for layer in (nn.Linear(256, 256), nn.Tanh())))

    def forward(self, x):
        return self.layers(x)


def step(model, optimizer, x):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def make(wrapped, offload=None, **options):
    torch.manual_seed(1)
    model = Model().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    if wrapped:
        x = torch.zeros(1024, 256, device=DEVICE)
        model = lowtide.wrap(model, x, "90%" if offload is None else "75%", optimizer=optimizer,
                             offload=offload, time_limit=0.3, cache=False, **options)
    return model, optimizer


def parameters(model):
    return [parameter.detach().cpu() for parameter in model.parameters()]


def test_a_step_that_gets_no_memory_changes_nothing_and_the_next_one_trains():
    planned, eager = make(True), make(False)
    x = torch.randn(1024, 256, device="cpu").to(DEVICE)
    failed = 0
    for free_mib in (0, 1, 2, 4, 6):
        before = parameters(planned[0])
        states = len(planned[1].state)
        hog = all_but(free_mib << 20)
        try:
            planned[0](x).square().mean().backward()
        except torch.OutOfMemoryError:
            failed += 1
        hog.clear()
        planned[1].zero_grad()
        assert all(map(torch.equal, parameters(planned[0]), before))
        assert len(planned[1].state) == states
        for trained in (planned, eager):
            step(*trained, x)
        assert all(map(torch.equal, parameters(planned[0]), parameters(eager[0])))
    assert failed >= 3


def all_but(free_bytes):
    """Tensors that take the memory of the device, but for so much."""
    hog, size = [], 64 << 20
    while size >= 1 << 20:
        try:
            hog.append(torch.empty(size, dtype=torch.uint8, device=DEVICE))
        except torch.OutOfMemoryError:
            size //= 2
    while hog and free_bytes > 0:
        free_bytes -= hog.pop().nbytes
    return hog


def each_left_by(model, optimizer):
    """By parameter, it and its state, as the user sees them."""
    return [[tensor.detach().cpu().clone()
             for tensor in (parameter, *optimizer.state.get(parameter, {}).values())]
            for parameter in model.parameters()]


def left_by(model, optimizer):
    """All of the user's that a failed step must leave."""
    return [tensor for some in each_left_by(model, optimizer) for tensor in some]


def refused_step(trained, x, request):
    """Whether a step whose ``request``-th request is refused failed, which changes nothing that the
    user has. A step that makes fewer requests does not fail."""
    model, optimizer = trained
    before = left_by(*trained)
    try:
        with simulated.refusing(request):
            model(x).square().mean().backward()
    except torch.OutOfMemoryError as error:
        assert "out of memory" in str(error)
    else:
        optimizer.zero_grad()
        return False
    assert all(map(torch.equal, left_by(*trained), before))
    optimizer.zero_grad()
    return True


@pytest.mark.parametrize("offload", [None, "host"])
def test_whichever_request_of_a_step_is_refused_the_next_step_trains(offload):
    planned, eager = make(True, offload=offload), make(False)
    x = torch.randn(1024, 256, device="cpu").to(DEVICE)
    for trained in (planned, eager):
        step(*trained, x)
    for request in itertools.count(1):
        failed = refused_step(planned, x, request)
        for trained in (planned, eager):
            step(*trained, x)
        assert all(map(torch.equal, parameters(planned[0]), parameters(eager[0])))
        if not failed:
            break
    assert request > 3
    assert offload is None or planned[0].memory.moved.bytes_out > 0


def test_whichever_request_of_the_first_step_is_refused_the_next_one_is_planned_and_trains(
        tmp_path, monkeypatch):
    """The optimizer is tried, the ops are measured and the graph is planned in it."""
    eager = make(False)
    x = torch.randn(1024, 256, device="cpu").to(DEVICE)
    step(*eager, x)
    for request in (1, 8, 60, 120):
        torch._dynamo.reset()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(request)))
        planned = make(False)
        wrapped = lowtide.wrap(planned[0], budget="90%", optimizer=planned[1], time_limit=0.1,
                               cache=False)
        assert refused_step((wrapped, planned[1]), x, request)
        step(wrapped, planned[1], x)
        assert all(map(torch.equal, parameters(wrapped), parameters(eager[0])))


def twin_of(model, optimizer):
    """An eager model and its optimizer that have copies of all that these have."""
    twin, its_optimizer = make(False)
    twin.load_state_dict(model.state_dict())
    its_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return twin, its_optimizer


def after_optimizers_step(model, optimizer):
    """What is left by the step that the optimizer is about to make."""
    twin, its_optimizer = twin_of(model, optimizer)
    for parameter, own in zip(twin.parameters(), model.parameters(), strict=True):
        parameter.grad = own.grad.clone()
    its_optimizer.step()
    return each_left_by(twin, its_optimizer)


def after_step_of_twin(model, optimizer, x):
    """What is left by the step that both are about to make."""
    twin = twin_of(model, optimizer)
    step(*twin, x)
    return each_left_by(*twin)


def are_equal(some, others):
    return len(some) == len(others) and all(map(torch.equal, some, others))


@pytest.mark.parametrize("has_state", [True, False])
def test_whichever_request_of_an_optimizers_step_is_refused_no_state_of_an_update_is_lost(
        has_state):
    """Its state lies in slower memory. As in PyTorch, the state of a parameter that was not updated
    yet may be on its way."""
    x = torch.randn(1024, 256, device="cpu").to(DEVICE)
    model, optimizer = make(True, lowtide.Offload("host", optimizer_state=True))
    empty = optimizer.state_dict()
    step(model, optimizer, x)
    for request in itertools.count(1):
        if not has_state:
            optimizer.load_state_dict(empty)
        model(x).square().mean().backward()
        before = each_left_by(model, optimizer)
        after = after_optimizers_step(model, optimizer)
        try:
            with simulated.refusing(request):
                optimizer.step()
        except torch.OutOfMemoryError:
            for left, old, new in zip(each_left_by(model, optimizer), before, after, strict=True):
                assert are_equal(left, new) or torch.equal(left[0], old[0]), request
        else:
            assert all(map(are_equal, each_left_by(model, optimizer), after))
            break
        optimizer.zero_grad()
    assert request > 3


def test_whichever_request_of_a_pass_that_updates_is_refused_each_parameter_is_updated_or_not():
    """Parameters that were updated before the request stay so, with their state."""
    x = torch.randn(1024, 256, device="cpu").to(DEVICE)
    model, optimizer = make(True, fused_update=True)
    step(model, optimizer, x)
    for request in itertools.count(1):
        before = each_left_by(model, optimizer)
        after = after_step_of_twin(model, optimizer, x)
        try:
            with simulated.refusing(request):
                model(x).square().mean().backward()
        except torch.OutOfMemoryError:
            for left, old, new in zip(each_left_by(model, optimizer), before, after, strict=True):
                assert are_equal(left, new) or torch.equal(left[0], old[0]), request
            optimizer.zero_grad()
        else:
            assert all(map(are_equal, each_left_by(model, optimizer), after))
            break
    assert request > 3
