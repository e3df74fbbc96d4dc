"""Ranks that do, keep or want different things, and budgets that change, with a mesh."""

import contextlib
import datetime
import os

import lowtide
import pytest
import torch
import torch.distributed as dist
from lowtide.pytorch.shards.collectives import IN_FLIGHT
from lowtide.pytorch.shards.group import Group
from rank_processes import RankProcesses
from shards_cases import (
    Layers,
    adam,
    batches,
    distributed,
    made,
    mesh_of,
    parameters_of,
    trained,
    wrapped,
)
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")


def budgets_changed(rank, ranks):
    """Losses beside those of DDP, and planned peaks beside budgets."""
    model, optimizer = wrapped("gpt", rank, ranks, sharding="full", budget=None)
    plain, stepped = distributed("gpt", "ddp", ranks)
    given, found, peaks = batches("gpt", rank, 8), [], []
    found += trained(model, optimizer, given[:2])
    with pytest.raises(lowtide.InfeasibleError) as refused:
        lowtide.set_budget(model, 1)
    for budget in (refused.value.smallest_budget, "80%", None):
        lowtide.set_budget(model, budget)
        found += trained(model, optimizer, given[len(found):len(found) + 2])
        memory = lowtide.memory(model)
        peaks.append((memory.planned_peak, memory.measured_peak, memory.budget))
    return found, trained(plain, stepped, given), peaks


def test_a_budget_changes_on_all_ranks_together(two):
    for found, expected, peaks in two.run(budgets_changed, 2):
        assert found == pytest.approx(expected, rel=1e-5)
        for planned, measured, budget in peaks:
            assert budget is None or planned <= budget and measured <= budget


def alone(rank, ranks, what):
    """What all ranks say where only the first one does something, and the others go on."""
    model, optimizer = wrapped("layers", rank, ranks, sharding="full", budget=None)
    given = batches("layers", rank, 5)
    trained(model, optimizer, given[:2])
    with pytest.raises(lowtide.Error) as refused:
        if rank > 0:
            trained(model, optimizer, given[2:])
        elif what == "evaluate":
            with torch.no_grad():
                model(*given[2])
        elif what == "set a budget":
            lowtide.set_budget(model, "70%")
        else:
            for batch in given[2:]:
                model(*batch)
    return str(refused.value)


@pytest.mark.parametrize("what", ["evaluate", "set a budget", "begin a step"])
def test_what_one_rank_does_alone_is_an_error_of_all(two, what):
    for message in two.run(alone, 2, what):
        assert what in message and "ranks 0" in message and "ranks 1" in message


def wrapped_with_other_inputs(rank, ranks):
    model = made("layers")
    x, targets = batches("layers", rank)[0]
    with pytest.raises(Exception) as refused:
        lowtide.wrap(model, (x[:, rank:], targets), optimizer=adam(model), mesh=mesh_of(ranks),
                     sharding="full", cache=False, time_limit=0.3)
    return str(refused.value)


def test_a_rank_that_cannot_wrap_ends_wrap_on_all(two):
    first, second = two.run(wrapped_with_other_inputs, 2)
    assert first.startswith("rank 1 of 2 failed to wrap the model: ")
    assert "reduction dim" in second and "reduction dim" in first


def by_arguments_of_its_own(rank, ranks, of_second):
    """What wrap says where the second rank has these arguments."""
    model, mesh = made("layers"), mesh_of(ranks)
    with pytest.raises(lowtide.Error) as refused:
        lowtide.wrap(model, batches("layers", rank)[0], **{
            "budget": "90%", "mesh": mesh, "sharding": "full", "cache": False}
            | (of_second if rank == 1 else {}))
    return str(refused.value)


@pytest.mark.parametrize("of_second, words", [
    ({"offload": "/no/folder"}, "/no/folder"), ({"strategy": "bogus"}, "there is no strategy"),
    ({"sharding": "half"}, "unknown sharding"), ({"mode": "inductor"}, "a mesh is not for")])
def test_what_is_refused_on_one_rank_is_told_to_all(two, of_second, words):
    first, second = two.run(by_arguments_of_its_own, 2, of_second)
    assert second in first and words in second
    assert first.startswith("rank 1 of 2 failed to wrap the model: ")


@pytest.mark.parametrize("of_second", [{"budget": "80%"}, {"sharding": "none"},
                                       {"offload": "/tmp"}])
def test_ranks_with_other_arguments_hear_that_before_anything_is_measured(two, of_second):
    for message in two.run(by_arguments_of_its_own, 2, of_second):
        assert "about to wrap the model, but not the same" in message
        assert "arguments of lowtide.wrap" in message


def timeouts(rank):
    """Of the process groups of a mesh whose own has another than the usual one."""
    group = Group(DeviceMesh.from_group(
        dist.new_group(timeout=datetime.timedelta(seconds=77)), "cpu"))
    return [made._get_backend(torch.device("cpu")).options._timeout.total_seconds()
            for made in (group.data, group._talk)]


def test_collectives_fail_after_as_long_as_those_of_the_mesh(two):
    assert two.run(timeouts) == [[77, 77], [77, 77]]


def on_a_mesh_that_descends(rank):
    with pytest.raises(lowtide.InputError) as refused:
        lowtide.wrap(made("layers"), batches("layers", rank)[0], mesh=DeviceMesh("cpu", [1, 0]),
                     sharding="full")
    return str(refused.value)


def test_ranks_that_descend_are_refused(two):
    for message in two.run(on_a_mesh_that_descends):
        assert "ascend" in message and "[1, 0]" in message


def agreements(rank, ranks):
    """What the ranks tell each other in two steps, each in one message, and in two more that begin
    with another budget."""
    model, optimizer = wrapped("gpt", rank, ranks, sharding="full", budget=None)
    given, said = batches("gpt", rank, 6), []
    trained(model, optimizer, given[:2])
    group = lowtide.pytorch.wrap.session_of(model).settings.group
    meet, group.meet = group.meet, lambda what, *more: (said.append(what), meet(what, *more))[1]
    trained(model, optimizer, given[2:4])
    alike = list(said)
    lowtide.set_budget(model, "60%")
    said.clear()
    trained(model, optimizer, given[4:])
    return alike, said


def test_a_step_begins_with_one_message_unless_its_plan_is_another(two):
    for alike, with_another_plan in two.run(agreements, 2):
        assert alike == 2 * ["begin a step", "run a backward pass"]
        assert with_another_plan.count("run a forward pass") == 1
        assert with_another_plan[-2:] == ["begin a step", "run a backward pass"]


class WithScores(Layers):
    def forward(self, x, targets):
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        scores = self.layers[-1](x)
        return nn.functional.cross_entropy(scores, targets), scores


def keeping(rank, ranks, keeps):
    """Trained where the first rank may keep results and gradients of all steps."""
    torch.manual_seed(3)
    model = WithScores()
    optimizer, given, kept = adam(model), batches("layers", rank, 6, rows=64), []
    model = lowtide.wrap(model, given[0], "100%", optimizer=optimizer, mesh=mesh_of(ranks),
                         sharding="full", cache=False, time_limit=0.3)
    losses = []
    for batch in given:
        loss, scores = model(*batch)
        loss.backward()
        if keeps and rank == 0:
            kept.append((scores, [parameter.grad for parameter in model.parameters()]))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, parameters_of(model)


def test_ranks_may_keep_different_results_and_gradients(two):
    for (losses, parameters), (others, same) in zip(two.run(keeping, 2, True),
                                                    two.run(keeping, 2, False)):
        assert losses == others
        assert all(torch.equal(parameter, same[name]) for name, parameter in parameters.items())


def frozen(rank, ranks, kind):
    """The largest parameter of the model is not trained."""
    model = made("layers")
    model.layers[1].weight.requires_grad_(False)
    optimizer = adam(model)
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    else:
        model = lowtide.wrap(model, batches("layers", rank)[0], optimizer=optimizer,
                             mesh=mesh_of(ranks), sharding=kind, cache=False, time_limit=0.3)
    return trained(model, optimizer, batches("layers", rank))


def test_frozen_parameters_lie_in_shards_too(two):
    for found, expected in zip(two.run(frozen, 2, "full"), two.run(frozen, 2, "ddp")):
        assert found == pytest.approx(expected, rel=1e-5)


def leave(*_):
    os._exit(3)


def left_alone(place):
    """The second rank ends without a word in its third step."""
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank = dist.get_rank()
    with contextlib.ExitStack() as until_the_end:
        until_the_end.callback(dist.destroy_process_group)
        model, optimizer = wrapped("layers", rank, 2, sharding="full", budget=None)
        given = batches("layers", rank, 3)
        trained(model, optimizer, given[:2])
        if rank == 1:
            {"step": leave, "pass": lambda: setattr(IN_FLIGHT, "wait", leave)}[place]()
        trained(model, optimizer, given[2:])


@pytest.mark.parametrize("place, collective", [
    ("step", "meeting the others to begin a step"), ("pass", "a gather of parameters")])
def test_a_rank_that_is_left_alone_says_in_what(tmp_path, place, collective):
    with RankProcesses(tmp_path, left_alone, 2, place) as ranks:
        alone, left = ranks.outcomes(120)
    assert left.exit == 3
    kind, message = alone.error
    assert kind == "RankError"
    assert message.startswith(f"rank 0 of 2: {collective} failed: RuntimeError: ")
    assert "what it printed last may say why" in message and "lowtide.Watchdog" in message
