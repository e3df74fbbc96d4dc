"""The state of an optimizer lies in slower memory between steps: within budgets and limits."""

import warnings

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from on_device import DEVICE
from optimizer_state_cases import (
    MIB,
    OPTIMIZERS,
    Pair,
    Words,
    bytes_of,
    equal,
    files_in,
    in_groups,
    place,
    steps,
    tokens,
    wrapped,
)
from torch import nn, optim
from torch_memory import profiled
from wrap_cases import built, same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


def held_bytes(model):
    return sum(executor.held_bytes for region in session_of(model).regions
               for executor in region.executors)


def test_a_step_stays_within_a_budget_that_the_state_alone_exceeds(tmp_path):
    model, plain = built(lambda: Words(64_000)), built(lambda: Words(64_000))
    make = OPTIMIZERS["amsgrad"]
    optimizer, plain_optimizer = make(model.parameters()), make(plain.parameters())
    budget = 46 * MIB
    assert 3 * bytes_of(p for p in model.parameters() if p.requires_grad) > budget
    with pytest.raises(lowtide.InfeasibleError):
        lowtide.wrap(model, (tokens(0),), budget, optimizer=optimizer, time_limit=0.3,
                     offload=place(tmp_path, optimizer_state=False))
    model = lowtide.wrap(model, (tokens(0),), budget, optimizer=optimizer, time_limit=0.3,
                         offload=place(tmp_path, optimizer_state=None))
    steps(plain, plain_optimizer, 6)
    steps(model, optimizer, 4)

    def step():
        steps(model, optimizer, 1, first=4)

    optimizer.zero_grad()
    existing = bytes_of(model.parameters()) + held_bytes(model)
    assert existing + profiled(step)[0] <= budget
    steps(model, optimizer, 1, first=5)
    assert model.memory.measured_peak <= budget == model.memory.budget
    assert model.memory.planned_peak <= budget
    assert same(list(model.parameters()), list(plain.parameters()))
    assert equal(optimizer.state_dict(), plain_optimizer.state_dict())


def test_state_stays_where_all_fits(tmp_path):
    model = built(Words)
    optimizer = in_groups(model, OPTIMIZERS["adam"])
    model = lowtide.wrap(model, (tokens(0),), "1GiB", optimizer=optimizer, time_limit=0.3,
                         offload=place(tmp_path, optimizer_state=None))
    steps(model, optimizer)
    assert type(optimizer.state) is type(optim.SGD([nn.Parameter(torch.ones(1))], 0.1).state)
    assert model.memory.state_bytes == 0


def test_a_share_is_one_of_a_step_with_the_state(tmp_path):
    def budget(**options):
        model = built(lambda: Words(40_000))
        optimizer = optim.Adam(model.parameters())
        return lowtide.wrap(model, (tokens(0, 16_384),), "90%", optimizer=optimizer,
                            time_limit=0.3, **options).memory.budget

    assert budget(offload=place(tmp_path)) == budget()


def test_the_smallest_budget_that_an_error_names_does(tmp_path):
    model = built(Words)
    optimizer = in_groups(model, OPTIMIZERS["adam"])
    with pytest.raises(lowtide.InfeasibleError) as error:
        wrapped(model, optimizer, tmp_path, 2 * MIB)
    smallest = error.value.smallest_budget
    assert type(optimizer.state) is not type(wrapped(model, optimizer, tmp_path, smallest))
    steps(model, optimizer)
    assert smallest < 4 * bytes_of(model.parameters()) + 8 * MIB


def test_what_moved_is_said(tmp_path):
    pair = Pair(tmp_path)
    pair.run()
    memory = pair.model.memory
    state = 2 * bytes_of(p for p in pair.model.parameters() if p.requires_grad)
    assert state <= memory.state_bytes <= 1.1 * state
    assert 0 < memory.state_moved.bytes_in <= memory.state_moved.bytes_out <= memory.state_bytes
    text = lowtide.explain(pair.model)
    assert "of optimizer state in slower memory" in text and str(memory.state_moved) in text


def test_the_limit_holds_for_the_state(tmp_path):
    model = built(Words)
    optimizer = in_groups(model, OPTIMIZERS["adam"])
    with pytest.raises(lowtide.InputError, match="optimizer's state takes .* allows 1.00 MiB"):
        wrapped(model, optimizer, tmp_path, offload_budget="1MiB")
    with pytest.raises(lowtide.InputError, match="optimizer_state must be True, False or None"):
        place(tmp_path, optimizer_state="yes")


def test_the_limit_holds_however_often_the_state_comes_back(tmp_path):
    model, plain = built(Words), built(Words)
    optimizers = [in_groups(m, OPTIMIZERS["adam"]) for m in (model, plain)]
    state = 2 * bytes_of(p for p in model.parameters() if p.requires_grad)
    least = 4 * MIB + bytes_of(model.parameters()) * 2 + (8 * MIB if DEVICE == "cpu" else 0)
    model = wrapped(model, optimizers[0], tmp_path, least, None, offload_budget=int(1.2 * state))
    moved = []
    for number in range(5):
        model.budget = least if number % 2 == 0 else 100 * MIB
        for called, optimizer in zip((model, plain), optimizers):
            steps(called, optimizer, 1, first=number)
        moved.append(model.memory.state_bytes > 0)
        assert moved[-1] or type(optimizers[0].state) is type(optimizers[1].state)
        assert len(list(files_in(tmp_path))) == (moved[-1] and DEVICE == "cpu")
    assert moved == [True, False, True, False, True]
    assert same(list(model.parameters()), list(plain.parameters()))
    assert equal(*(optimizer.state_dict() for optimizer in optimizers))


def test_pieces_get_smaller_with_the_budget(tmp_path):
    model, plain = built(lambda: Words(64_000)), built(lambda: Words(64_000))
    optimizers = [in_groups(m, OPTIMIZERS["adam"]) for m in (model, plain)]
    steps(plain, optimizers[1], 5)
    state = 2 * bytes_of(p for p in model.parameters() if p.requires_grad)
    model = wrapped(model, optimizers[0], tmp_path, "400MiB", offload_budget=int(1.1 * state))
    steps(model, optimizers[0], 2)
    with pytest.raises(lowtide.InfeasibleError) as error:
        model.budget = "1MiB"
    before = model.memory.measured_peak
    model.budget = least = int(1.02 * error.value.smallest_budget)
    optimizers[0].zero_grad()
    steps(model, optimizers[0], 3, first=2)
    optimizers[0].zero_grad()
    model(tokens(5))
    assert model.memory.measured_peak <= least < before
    assert same(list(model.parameters()), list(plain.parameters()))
    assert equal(*(optimizer.state_dict() for optimizer in optimizers))


@pytest.mark.parametrize("more", [1, 1.005, 1.02])
def test_a_step_that_takes_more_than_the_smallest_budget_says_so(more, tmp_path):
    model = built(Words)
    optimizer = OPTIMIZERS["amsgrad"](model.parameters(), foreach=True)
    with pytest.raises(lowtide.InfeasibleError) as error:
        wrapped(model, optimizer, tmp_path, 2 * MIB)
    budget = int(more * error.value.smallest_budget)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = wrapped(model, optimizer, tmp_path, budget)
        steps(model, optimizer, 3)
        optimizer.zero_grad()
        model(tokens(3))
    assert (model.memory.measured_peak <= budget
            or any("optimizer's own step" in str(warning.message) for warning in said))
