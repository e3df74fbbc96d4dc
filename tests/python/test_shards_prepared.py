"""Models of fully_shard, and checkpoints that go from one way of training to another."""

import lowtide
import pytest
import torch
import torch.distributed.checkpoint as checkpoint
from on_ranks import Ranks
from shards_cases import (
    adam,
    batches,
    distributed,
    made,
    mesh_of,
    parameters_of,
    trained,
    wrapped,
)
from sweep import sweep
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")


def sharded_by_block(ranks):
    model = made("gpt")
    for block in model.blocks:
        fully_shard(block, mesh=mesh_of(ranks))
    fully_shard(model, mesh=mesh_of(ranks))
    return model, adam(model)


def prepared(rank, ranks):
    model, optimizer = sharded_by_block(ranks)
    expected = trained(model, optimizer, batches("gpt", rank))
    other, stepped = sharded_by_block(ranks)
    kept = dict(other.named_parameters())
    planned = lowtide.wrap(other, batches("gpt", rank)[0], optimizer=stepped, cache=False,
                           time_limit=0.3)
    assert all(parameter is kept[name] for name, parameter in planned.named_parameters())
    found = trained(planned, stepped, batches("gpt", rank))
    return expected, found, parameters_of(model), parameters_of(planned)


def test_a_model_of_fully_shard_is_planned_with_its_own_parameters(two):
    for expected, found, parameters, planned in two.run(prepared, 2):
        assert found == pytest.approx(expected, rel=1e-5)
        for name, parameter in parameters.items():
            torch.testing.assert_close(planned[name], parameter, rtol=1e-4, atol=1e-5)


def refused_as_prepared(rank, ranks):
    messages = []
    for options in ({"sharding": "none"}, {"budget": 1000}):
        model, optimizer = sharded_by_block(ranks)
        with pytest.raises((lowtide.InputError, lowtide.InfeasibleError)) as error:
            lowtide.wrap(model, batches("gpt", rank)[0], optimizer=optimizer, cache=False,
                         time_limit=0.3, **options)
        messages.append(str(error.value))
        messages.append(trained(model, optimizer, batches("gpt", rank))[-1])
    return messages


def test_what_is_refused_trains_on_as_before(two):
    for sharding, loss, budget, same_loss in two.run(refused_as_prepared, 2):
        assert "fully_shard" in sharding and "infeasible" in budget
        assert loss == same_loss


def saved(rank, kind, ranks, folder):
    """A checkpoint after two steps, and the loss of the third."""
    model, optimizer = trainer(kind, rank, ranks)
    steps = batches("gpt", rank)
    trained(model, optimizer, steps[:2])
    state, stepped = get_state_dict(model, optimizer)
    checkpoint.save({"model": state, "optimizer": stepped}, checkpoint_id=folder)
    return trained(model, optimizer, steps[2:]), parameters_of(model)


def loaded(rank, kind, ranks, folder):
    """The loss of the third step, from the checkpoint."""
    model, optimizer = trainer(kind, rank, ranks)
    state, stepped = get_state_dict(model, optimizer)
    checkpoint.load({"model": state, "optimizer": stepped}, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state, optim_state_dict=stepped)
    return trained(model, optimizer, batches("gpt", rank)[2:]), parameters_of(model)


def trainer(kind, rank, ranks):
    if kind == "fsdp":
        return distributed("gpt", kind, ranks)
    return wrapped("gpt", rank, ranks, sharding=kind, budget=None)


@pytest.mark.parametrize("source, target", sweep(
    [("full", "fsdp"), ("fsdp", "full"), ("full", "full")], usual=[("full", "fsdp")]))
def test_checkpoints_go_from_one_to_the_other(two, source, target, tmp_path):
    before = two.run(saved, source, 2, str(tmp_path))
    after = two.run(loaded, target, 2, str(tmp_path))
    for (losses, parameters), (others, other_parameters) in zip(before, after):
        assert others == pytest.approx(losses, rel=1e-5)
        for name, parameter in parameters.items():
            torch.testing.assert_close(other_parameters[name], parameter, rtol=1e-4, atol=1e-5)


def parameters_loaded(rank, ranks, folder):
    model, optimizer = wrapped("gpt", rank, ranks, sharding="full", budget=None)
    state, stepped = get_state_dict(model, optimizer)
    checkpoint.load({"model": state, "optimizer": stepped}, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state, optim_state_dict=stepped)
    return parameters_of(model)


@pytest.mark.sweep
def test_a_checkpoint_of_two_ranks_is_loaded_by_three(two, tmp_path):
    def parameters(rank_results):
        return rank_results[0]

    _, wanted = parameters(two.run(saved_before_third, 2, str(tmp_path)))
    ranks = Ranks(3)
    try:
        found = parameters(ranks.run(parameters_loaded, 3, str(tmp_path)))
    finally:
        ranks.close()
    for name, parameter in wanted.items():
        assert torch.equal(found[name], parameter)


def saved_before_third(rank, ranks, folder):
    model, optimizer = wrapped("gpt", rank, ranks, sharding="full", budget=None)
    losses = trained(model, optimizer, batches("gpt", rank)[:2])
    state, stepped = get_state_dict(model, optimizer)
    checkpoint.save({"model": state, "optimizer": stepped}, checkpoint_id=folder)
    return losses, parameters_of(model)
