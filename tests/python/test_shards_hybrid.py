"""Meshes of two dimensions: shards along one, and copies of them along the other."""

import lowtide
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from lowtide.pytorch.shards.collectives import IN_FLIGHT
from lowtide.pytorch.wrap import session_of
from shards_cases import (
    CASES,
    adam,
    batches,
    descent,
    distributed,
    made,
    mesh_of,
    parameters_of,
    trained,
    wrapped,
)
from sweep import sweep
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch_memory import profiled

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")

MESH = (2, 2)


def by_lowtide(rank, case, mesh, optimizer=descent, **options):
    model, stepped = wrapped(case, rank, mesh, optimizer, **options)
    losses = trained(model, stepped, batches(case, rank))
    assert len(IN_FLIGHT) == 0
    return losses, parameters_of(model)


def with_sharding(rank, case, sharding):
    return by_lowtide(rank, case, MESH, sharding=sharding)


def by_ddp(rank, case):
    model, optimizer = distributed(case, "ddp", dist.get_world_size(), descent)
    return trained(model, optimizer, batches(case, rank)), parameters_of(model)


def require_like(found, expected):
    for (losses, parameters), (wanted, others) in zip(found, expected):
        assert losses == pytest.approx(wanted, rel=1e-5)
        assert parameters.keys() == others.keys()
        for name, parameter in parameters.items():
            torch.testing.assert_close(parameter, others[name], rtol=1e-3, atol=1e-5)


def require_same(*found):
    """Bit for bit, and all ranks of each alike."""
    (_, first), *_ = found[0]
    for results in found:
        for _, parameters in results:
            assert all(torch.equal(parameter, first[name])
                       for name, parameter in parameters.items())


@pytest.mark.parametrize("case, sharding", sweep(
    [(case, sharding) for case in CASES for sharding in ("none", "gradients", "full", None)],
    usual=[("gpt", "full")]))
def test_copies_of_shards_train_as_ddp_does(four, case, sharding):
    found, again = (four.run(with_sharding, case, sharding) for _ in range(2))
    require_like(found, four.run(by_ddp, case))
    require_same(found, again)


def on_every_second_rank(rank):
    """Shards on ranks that are no neighbours, as where those of one machine are counted so."""
    model, mesh = made("layers"), DeviceMesh("cpu", [[0, 2], [1, 3]])
    optimizer, given = descent(model), batches("layers", rank)
    model = lowtide.wrap(model, given[0], optimizer=optimizer, mesh=mesh, sharding="full",
                         cache=False, time_limit=0.3, verbose=False)
    return trained(model, optimizer, given), parameters_of(model)


def test_shards_lie_on_any_ranks_that_ascend(four):
    require_like(four.run(on_every_second_rank), four.run(by_ddp, "layers"))


@pytest.mark.sweep
@pytest.mark.parametrize("mesh", [(1, 2), (2, 1)])
def test_a_dimension_of_one(two, mesh):
    require_like(two.run(by_lowtide, "layers", mesh, descent), two.run(by_ddp, "layers"))


def halves(rank, mesh):
    model, optimizer = wrapped("gpt", rank, mesh, adam, sharding="full")
    trained(model, optimizer, batches("gpt", rank))
    held = [optimizer.state[parameter]["exp_avg"]._local_tensor
            for parameter in model.parameters() if parameter.placements[-1].is_shard()]
    whole = [parameter for parameter in model.parameters() if parameter.placements[-1].is_shard()]
    assert all(parameter.placements[0].is_replicate() for parameter in model.parameters())
    return sum(part.numel() for part in held), sum(parameter.numel() for parameter in whole)


def test_each_rank_holds_its_shard_and_the_state_of_it(four):
    for here, whole in four.run(halves, MESH):
        assert here == whole // 2


def within(rank, mesh, budget):
    """Losses, the peak by a count that is not Lowtide's, and the budget in bytes."""
    model, optimizer = wrapped("gpt", rank, mesh, sharding="full", budget=budget, coalesce=False)
    losses = trained(model, optimizer, batches("gpt", rank)[:2])
    held = sum(tensor._local_tensor.untyped_storage().nbytes()
               for tensor in [*model.parameters(), *(
                   value for values in optimizer.state.values() for value in values.values())]
               if hasattr(tensor, "_local_tensor"))
    session_of(model).release()
    peak, _, _ = profiled(lambda: losses.extend(
        trained(model, optimizer, batches("gpt", rank)[2:])))
    return losses, peak + held, model.memory.budget


@pytest.mark.parametrize("budget", sweep(["60%", "70%", "80%", "90%"], usual=["80%"]))
def test_each_rank_keeps_the_budget(four, budget):
    expected = four.run(by_lowtide, "gpt", MESH, adam)
    for (losses, peak, limit), (wanted, _) in zip(four.run(within, MESH, budget), expected):
        assert losses == pytest.approx(wanted, rel=1e-5)
        assert peak <= limit


def clipped(rank, mesh, fused):
    model = made("gpt")
    optimizer = descent(model)
    how = lowtide.FusedUpdate(max_norm=0.5) if fused else None
    model = lowtide.wrap(model, batches("gpt", rank)[0], optimizer=optimizer, mesh=mesh_of(mesh),
                         sharding="full", fused_update=how, cache=False, time_limit=0.3)
    norms = []
    for batch in batches("gpt", rank):
        model(*batch).backward()
        if not fused:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            norms.append(getattr(norm, "full_tensor", lambda norm=norm: norm)().item())
        else:
            norms.append(session_of(model).gradient_norm)
        optimizer.step()
        optimizer.zero_grad()
    return norms, parameters_of(model)


@pytest.mark.sweep
def test_the_norm_that_clips_is_that_of_the_whole_gradients(four):
    require_like(four.run(clipped, MESH, True), four.run(clipped, MESH, False))


def prepared(rank, mesh):
    """By PyTorch's hybrid sharding, and planned."""
    results = []
    for is_planned in (False, True):
        model = made("gpt")
        for module in [*model.blocks, model]:
            fully_shard(module, mesh=mesh_of(mesh))
        optimizer = adam(model)
        if is_planned:
            model = lowtide.wrap(model, batches("gpt", rank)[0], optimizer=optimizer, cache=False,
                                 time_limit=0.3)
        results.append((trained(model, optimizer, batches("gpt", rank)), parameters_of(model)))
    return results


def test_a_model_of_fully_shard_with_two_dimensions_is_planned(four):
    results = four.run(prepared, MESH)
    require_like([planned for _, planned in results], [plain for plain, _ in results])


def saved(rank, mesh, folder):
    model, optimizer = wrapped("gpt", rank, mesh, sharding="full")
    trained(model, optimizer, batches("gpt", rank)[:2])
    state, stepped = get_state_dict(model, optimizer)
    checkpoint.save({"model": state, "optimizer": stepped}, checkpoint_id=folder)
    return trained(model, optimizer, batches("gpt", rank)[2:]), parameters_of(model)


def loaded(rank, mesh, folder):
    model, optimizer = wrapped("gpt", rank, mesh, sharding="full")
    state, stepped = get_state_dict(model, optimizer)
    checkpoint.load({"model": state, "optimizer": stepped}, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state, optim_state_dict=stepped)
    return trained(model, optimizer, batches("gpt", rank)[2:]), parameters_of(model)


@pytest.mark.sweep
def test_a_checkpoint_goes_to_ranks_without_copies(four, tmp_path):
    expected = four.run(saved, MESH, str(tmp_path))
    require_like(four.run(loaded, 4, str(tmp_path)), expected)


def refused(rank):
    with pytest.raises(lowtide.InputError) as error:
        wrapped("layers", rank, (1, 1, 2))
    return str(error.value)


def test_more_dimensions_are_refused(two):
    assert all("not 3" in message and "mesh[" in message for message in two.run(refused))
