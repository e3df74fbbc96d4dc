"""Passes that are set aside, and plans for several that wait: eager's bits, and the bytes that
were promised."""

import dataclasses
import gc
import random

import lowtide
import pytest
import torch
from lowtide.pytorch.pipeline.waiting_plans import NoRoom, WaitingPlans
from lowtide.pytorch.wrap import session_of
from pipeline_models import Residual
from sweep import sweep
from torch import nn
from torch_memory import profiled

pytestmark = [pytest.mark.usefixtures("own_cache", "one_thread"),
              pytest.mark.cpu_only("passes are set aside by sessions of pipelines on the CPU")]


class Normed(nn.Module):
    """With random ops, running statistics, views, and a result that its own backward reads."""

    def __init__(self, blocks, width):
        super().__init__()
        self.blocks = nn.Sequential(*[Residual(width, 3 * width, 0.3) for _ in range(blocks)])
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        return torch.sigmoid(self.norm(self.blocks(x)).view(-1)).view(x.shape)


def session_for(seed, blocks=2, width=8, rows=16):
    torch.manual_seed(seed)
    model = Normed(blocks, width)
    wrapped = lowtide.wrap(model, torch.randn(rows, width).requires_grad_(), time_limit=0.3,
                           stash=None, verbose=False)
    return model, session_of(wrapped)


def plans_of(session, seconds=1.0):
    (region,) = session.regions
    settings = dataclasses.replace(session.settings, time_limit=seconds)
    return region, WaitingPlans(region.priced.graph, "cpu", settings)


def eager(model, x, seed, tangent):
    torch.manual_seed(seed)
    y = model(x)
    gradients = torch.autograd.grad(y, [*model.parameters(), x], tangent)
    return [y.detach(), *gradients]


def given_to(region, model, x):
    """The primals of the region, by their names."""
    tensors = {"arguments.0": x, **dict(model.named_parameters()), **dict(model.named_buffers())}
    names = [region.captured.graph.tensors[index].name for index in region.captured.primals]
    return [tensors[name.split("model.")[-1]] for name in names]


@pytest.mark.parametrize("seed", sweep(range(12), usual=(0, 1, 2)))
def test_passes_that_are_set_aside_have_the_bits_of_eager(seed):
    draw = random.Random(seed)
    model, session = session_for(seed, blocks=draw.randint(1, 3))
    region, plans = plans_of(session)
    least = plans.smallest_bytes(4)
    chosen = plans.within(draw.randint(least, plans.keeping_all.bytes_of(4)), 4)
    inputs = [torch.randn(16, 8, requires_grad=True) for _ in range(4)]
    tangents = [torch.randn(16, 8) for _ in range(4)]
    state = {key: value.clone() for key, value in model.state_dict().items()}
    expected = [eager(model, x, number, tangent)
                for number, (x, tangent) in enumerate(zip(inputs, tangents))]
    statistics = [model.norm.running_mean.clone(), model.norm.running_var.clone()]
    model.load_state_dict(state)
    passes: list = []
    for number, x in enumerate(inputs):
        torch.manual_seed(number)
        for executor in region.executors:
            if executor.pending_pass:
                executor.set_aside()
        passes.append(region.passes.forward(region.priced.graph, chosen.plan, [
            value.detach() if isinstance(value, torch.Tensor) else value
            for value in given_to(region, model, x)]))
    (executor,) = region.executors
    assert executor.passes_aside == 3 and executor.is_pending(passes[3][1])
    for number in draw.sample(range(4), 4):
        results, ticket = passes[number]
        if not executor.is_pending(ticket):  # in exchange for the one that is
            executor.resume(ticket)
        torch.manual_seed(99)
        gradients = region.passes.backward(executor, [tangents[number]], copied=True)
        by_name = dict(zip((region.captured.graph.tensors[index].name.split("model.")[-1]
                            for index in region.captured.primals), gradients))
        names = [*(name for name, _ in model.named_parameters()), "arguments.0"]
        found = [by_name[name] for name in names]
        output = next(value for value in results if value.shape == inputs[number].shape)
        for one, other in zip([output, *found], expected[number]):
            assert torch.equal(one, other)
        del gradients, found, by_name, one
    assert executor.passes_aside == 0
    assert all(torch.equal(one, other) for one, other in
               zip(statistics, [model.norm.running_mean, model.norm.running_var]))


def test_what_waits_takes_what_was_promised_and_goes_with_its_ticket():
    model, session = session_for(5)
    region, plans = plans_of(session)
    chosen = plans.keeping_all
    given = [value.detach() for value in given_to(region, model, torch.randn(16, 8))]
    tickets = []

    def wait(count):
        for _ in range(count):
            tickets.append(region.passes.forward(region.priced.graph, chosen.plan, given)[1])
            next(iter(region.executors)).set_aside()

    peak, _, _ = profiled(lambda: wait(3))
    (executor,) = region.executors
    beside = 3 * region.priced.uncounted_bytes + 4096 * 3  # results and tickets
    assert executor.aside_bytes == chosen.aside_bytes
    assert chosen.bytes_of(4) <= peak <= chosen.bytes_of(4) + beside  # the block is free for a 4th
    with pytest.raises(Exception, match="release"):
        executor.release()
    _, freed, _ = profiled(tickets.clear)
    gc.collect()
    assert -freed >= 3 * chosen.aside_bytes and executor.passes_aside == 0
    executor.release()
    assert executor.held_bytes == 0


def test_an_exchange_takes_no_more_memory():
    model, session = session_for(8, rows=512)
    region, plans = plans_of(session)
    given = [value.detach() for value in given_to(region, model, torch.randn(512, 8))]
    _, first = region.passes.forward(region.priced.graph, plans.keeping_all.plan, given)
    (executor,) = region.executors
    executor.set_aside()
    _, second = region.passes.forward(region.priced.graph, plans.keeping_all.plan, given)
    peak, left, _ = profiled(lambda: executor.resume(first))
    assert left == 0 and peak <= 32768 < executor.aside_bytes
    assert executor.is_pending(first) and executor.passes_aside == 1
    executor.resume(second)
    assert executor.is_pending(second) and executor.passes_aside == 1


def test_only_a_ticket_that_waits_is_resumed():
    model, session = session_for(6)
    region, plans = plans_of(session)
    given = [value.detach() for value in given_to(region, model, torch.randn(16, 8))]
    _, ticket = region.passes.forward(region.priced.graph, plans.keeping_all.plan, given)
    (executor,) = region.executors
    executor.set_aside()
    with pytest.raises(lowtide.InputError, match="no pass is set aside for this ticket"):
        executor.resume(ticket + 1)
    executor.resume(ticket)
    assert executor.pending_pass and not executor.passes_aside


@pytest.mark.parametrize("waiting", [1, 2, 5])
def test_the_smallest_bytes_are_enough_and_less_is_not(waiting):
    _, session = session_for(7)
    _, plans = plans_of(session)
    smallest = plans.smallest_bytes(waiting)
    with pytest.raises(NoRoom) as error:
        plans.within(smallest // 2, waiting)
    assert error.value.smallest == plans.smallest_bytes(waiting) <= smallest
    _, others = plans_of(session)
    found = others.within(smallest, waiting)
    assert found.bytes_of(waiting) <= smallest
    assert found.seconds >= others.keeping_all.seconds
    whole = others.within(others.keeping_all.bytes_of(waiting), waiting)
    assert whole is others.keeping_all and not others.reruns_of(whole)
    assert others.reruns_of(found)
