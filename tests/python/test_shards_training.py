"""Training on several ranks: the numbers of DDP and FSDP2, within the bytes of the budget."""

import copy
import itertools
import math

import lowtide
import pytest
import torch
from lowtide.pytorch.shards.collectives import IN_FLIGHT
from shards_cases import (
    CASES,
    adam,
    batches,
    descent,
    distributed,
    gathers,
    made,
    mesh_of,
    needed,
    parameters_of,
    ran,
    trained,
    whole,
    wrapped,
)
from sweep import sweep
from torch import nn
from torch_memory import profiled

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")


def losses_and_parameters(rank, case, sharding, ranks, budget, optimizer=adam):
    model, optimizer = wrapped(case, rank, ranks, optimizer, sharding=sharding, budget=budget)
    losses = trained(model, optimizer, batches(case, rank))
    assert len(IN_FLIGHT) == 0
    return losses, parameters_of(model), dict(model.named_buffers())


def of_torch(rank, case, kind, ranks):
    model, optimizer = distributed(case, kind, ranks)
    losses = trained(model, optimizer, batches(case, rank))
    return losses, parameters_of(model)


@pytest.mark.parametrize("case, sharding", sweep(
    itertools.product(CASES, ["none", "gradients", "full"]),
    usual=[("layers", "full"), ("convolutions", "none"), ("gpt", "full")]))
def test_two_ranks_train_as_ddp_does(two, case, sharding):
    """DDP does not look at rounding either: sums over two ranks have one order."""
    found = two.run(losses_and_parameters, case, sharding, 2, None)
    expected = two.run(of_torch, case, "ddp", 2)
    for (losses, parameters, _), (wanted, others) in zip(found, expected):
        assert losses == pytest.approx(wanted, rel=1e-5)
        assert parameters.keys() == others.keys()
        for name, parameter in parameters.items():
            torch.testing.assert_close(parameter, others[name], rtol=1e-4, atol=1e-5)


@pytest.mark.sweep
def test_two_ranks_train_as_one_process_with_both_batches(two):
    found = two.run(losses_and_parameters, "gpt", "full", 2, None, descent)
    model, steps = made("gpt"), zip(batches("gpt", 0), batches("gpt", 1))
    joined = [tuple(map(torch.cat, zip(*both))) for both in steps]
    losses = trained(model, descent(model), joined)
    both = [sum(rank) / 2 for rank in zip(*(result[0] for result in found))]
    assert both == pytest.approx(losses, rel=1e-5)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[1][1][name], parameter, rtol=1e-3, atol=1e-4)


def smallest_budget(rank, case, ranks, time_limit=0.3):
    with pytest.raises(lowtide.InfeasibleError) as refused:
        wrapped(case, rank, ranks, sharding="full", budget=1000, time_limit=time_limit)
    return refused.value.smallest_budget


def within(rank, case, sharding, ranks, budget, steps, time_limit=0.3):
    """Losses, and the most that PyTorch's allocator handed out beside what was there before, from
    a count that is not Lowtide's, and how many gathers were run again."""
    model, optimizer = wrapped(case, rank, ranks, sharding=sharding, budget=budget,
                               time_limit=time_limit)
    given = batches(case, rank, steps)
    found = trained(model, optimizer, given[:2])  # what is known of a step is known now
    held = sum(parameter._local_tensor.untyped_storage().nbytes()
               if hasattr(parameter, "_local_tensor") else parameter.nbytes
               for parameter in model.parameters())
    state = sum(whole_bytes(value) for values in optimizer.state.values()
                for value in values.values())
    lowtide.pytorch.wrap.session_of(model).release()
    peak, _, _ = profiled(lambda: found.extend(trained(model, optimizer, given[2:])))
    return found, peak + held + state, gathers(ran(model)) - gathers(needed(model))


def whole_bytes(value):
    return getattr(value, "_local_tensor", value).untyped_storage().nbytes()


@pytest.mark.parametrize("share", sweep([0.0, 0.03, 0.1, 0.3, 0.6], usual=[0.1]))
def test_each_rank_keeps_the_budget(two, share):
    """With parameters that are gathered again where the plan has no room for them."""
    # Near the smallest budget, a plan is found again by a search that has its time.
    time_limit = 0.3 if share >= 0.1 else 4.0
    smallest = max(two.run(smallest_budget, "gpt", 2, time_limit))
    budget = math.ceil(smallest * (1 + share))
    expected = two.run(of_torch, "gpt", "fsdp", 2)
    for (losses, peak, again), (wanted, _) in zip(
            two.run(within, "gpt", "full", 2, budget, 6, time_limit), expected):
        assert losses[:3] == pytest.approx(wanted, rel=1e-5)
        assert peak <= budget
        assert again > 0 or share >= 0.1


def twice(rank, case, ranks):
    runs = []
    for _ in range(2):
        model, optimizer = wrapped(case, rank, ranks, sharding="full", budget=None)
        runs.append((trained(model, optimizer, batches(case, rank)), parameters_of(model)))
    (losses, parameters), (others, other_parameters) = runs
    return losses == others and all(
        torch.equal(parameter, other_parameters[name]) for name, parameter in parameters.items())


def test_each_run_has_the_same_bits(two):
    assert two.run(twice, "layers", 2) == [True, True]


def chosen(rank, ranks, budgets):
    found = []
    for budget in budgets:
        model, _ = wrapped("gpt", rank, ranks, budget=budget)
        shards = sum(hasattr(parameter, "_local_tensor") for parameter in model.parameters())
        found.append((shards, lowtide.pytorch.wrap.session_of(model).figures.predicted().seconds))
    return found


@pytest.mark.sweep
def test_the_sharding_is_chosen_by_the_budget(two):
    """By the same costs, more memory is never predicted to be slower."""
    smallest = max(two.run(smallest_budget, "gpt", 2))
    copies = sum(parameter.nbytes for parameter in made("gpt").parameters())
    first, second = two.run(chosen, 2, [smallest, smallest + 6 * copies])
    assert first == second
    (shards, seconds), (_, seconds_with_more) = first
    assert shards > 0
    assert seconds_with_more <= seconds


def accumulated(rank, kind, ranks):
    """Three passes, two of them without communication."""
    if kind == "ddp":
        model, optimizer = distributed("gpt", "ddp", ranks, descent)
    else:
        model, optimizer = wrapped("gpt", rank, ranks, descent, sharding=kind, budget=None)
    losses = []
    for first in (0, 3):
        steps = batches("gpt", rank, 6)[first:first + 3]
        with model.no_sync():
            for batch in steps[:2]:
                model(*batch).backward()
        loss = model(*steps[2])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, parameters_of(model)


@pytest.mark.parametrize("kind", sweep(["none", "full"], usual=["none"]))
def test_gradients_add_up_without_communication(two, kind):
    found, expected = two.run(accumulated, kind, 2), two.run(accumulated, "ddp", 2)
    for (losses, parameters), (wanted, others) in zip(found, expected):
        assert losses == pytest.approx(wanted, rel=1e-5)
        for name, parameter in parameters.items():
            torch.testing.assert_close(parameter, others[name], rtol=1e-3, atol=1e-4)


def clipped_and_evaluated(rank, ranks):
    model, optimizer = wrapped("layers", rank, ranks, sharding="full", budget=None)
    plain, other = distributed("layers", "ddp", ranks)
    found = []
    for batch in batches("layers", rank):
        norms = []
        for one, stepped in ((model, optimizer), (plain, other)):
            one(*batch).backward()
            norms.append(whole(torch.nn.utils.clip_grad_norm_(one.parameters(), 0.1)).item())
            stepped.step()
            stepped.zero_grad()
        with torch.no_grad():
            found.append((*norms, model(*batch).item(), plain(*batch).item()))
    return found


def test_gradients_are_clipped_and_models_evaluated(two):
    for steps in two.run(clipped_and_evaluated, 2):
        for norm, wanted, loss, other in steps:
            assert norm == pytest.approx(wanted, rel=1e-4)
            assert loss == pytest.approx(other, rel=1e-4)


def differing_sizes(rank, ranks):
    model, optimizer = wrapped("layers", rank, ranks, sharding="full", budget=None)
    trained(model, optimizer, batches("layers", rank))
    with pytest.raises(lowtide.Error) as refused:
        trained(model, optimizer, batches("layers", rank, 1, rows=4 - rank))
    return str(refused.value)


def test_batches_of_other_sizes_on_some_ranks_are_an_error(two):
    for message in two.run(differing_sizes, 2):
        assert "rank" in message and "sizes" in message


def smaller_last_batch(rank, ranks):
    model, optimizer = wrapped("layers", rank, ranks, sharding="full", budget=None)
    return trained(model, optimizer,
                   batches("layers", rank) + batches("layers", rank, 1, rows=3))


def of_torch_with_smaller(rank, ranks):
    model, optimizer = distributed("layers", "ddp", ranks)
    return trained(model, optimizer,
                   batches("layers", rank) + batches("layers", rank, 1, rows=3))


def test_a_smaller_last_batch_of_all_ranks_is_planned_too(two):
    for losses, wanted in zip(two.run(smaller_last_batch, 2), two.run(of_torch_with_smaller, 2)):
        assert losses == pytest.approx(wanted, rel=1e-5)


class Within(nn.Module):
    """With names that the module around it has too."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(20, 33), nn.Linear(33, 47)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        torch._dynamo.graph_break()
        return torch.tanh(self.last(x))


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.within, self.last = nn.Linear(20, 20), Within(), nn.Linear(47, 10)

    def forward(self, x, targets):
        return nn.functional.cross_entropy(self.last(self.within(self.first(x))), targets)


def in_pieces(rank, ranks):
    """Losses, and the budget before and after more graphs are known."""
    torch.manual_seed(3)
    plain, given = Broken(), batches("layers", rank, rows=64)
    model = copy.deepcopy(plain)
    optimizer = descent(model)
    model = lowtide.wrap(model, given[0], "100%", optimizer=optimizer, mesh=mesh_of(ranks),
                         sharding="full", coalesce=False, cache=False, time_limit=0.1)
    before = model.memory.budget
    losses = trained(model, optimizer, given)
    plain = nn.parallel.DistributedDataParallel(plain)
    return losses, trained(plain, descent(plain), given), before, model.memory


def test_a_module_with_a_graph_break_within_is_trained_in_shards(two):
    for losses, expected, before, memory in two.run(in_pieces, 2):
        assert losses == pytest.approx(expected, rel=1e-5)
        assert memory.budget > before  # a share is one of all graphs
        assert memory.measured_peak <= memory.budget


def refused(rank, ranks):
    model = made("layers")
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    messages = []
    for options in ({"fused_update": True}, {"mode": "inductor"},
                    {"sharding": "half"}, {"budget": 10, "sharding": "full"}, {}):
        inputs = None if options == {} else batches("layers", rank)[0]
        with pytest.raises((lowtide.InputError, lowtide.InfeasibleError)) as error:
            lowtide.wrap(model, inputs, mesh=mesh_of(ranks), cache=False, time_limit=0.3, **options)
        messages.append(str(error.value))
    with pytest.raises(lowtide.InputError) as error:
        lowtide.wrap(model, mesh=3)
    assert "mesh" in str(error.value)
    assert all(torch.equal(before[name], parameter)
               for name, parameter in model.named_parameters())
    return messages


def test_faults_are_told_before_a_parameter_moves(two):
    for messages in two.run(refused, 2):
        assert "fused_update" in messages[0] and "mode" in messages[1]
        assert "sharding" in messages[2] and "infeasible" in messages[3]
        assert "example_inputs" in messages[4]


@pytest.mark.sweep
def test_four_ranks_train_as_fsdp_does(four):
    found = four.run(losses_and_parameters, "layers", "full", 4, None)
    expected = four.run(of_torch, "layers", "ddp", 4)
    for (losses, parameters, _), (wanted, others) in zip(found, expected):
        assert losses == pytest.approx(wanted, rel=1e-5)
        for name, parameter in parameters.items():
            torch.testing.assert_close(parameter, others[name], rtol=1e-4, atol=1e-5)
