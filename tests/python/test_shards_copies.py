"""Copies of modules that train on several ranks, and what joins ranks of uneven inputs."""

import copy
import io
import warnings

import lowtide
import pytest
import torch
from shards_cases import batches, descent, made, mesh_of, parameters_of, trained, whole
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")


def by_torch(model):
    return copy.deepcopy(model)


def by_pickle(model):
    written = io.BytesIO()
    torch.save(model, written)
    return torch.load(io.BytesIO(written.getvalue()), weights_only=False)


def averaged(model):
    return AveragedModel(model).module


def within_ddp(rank, sharding, planned=True):
    model = made("gpt")
    optimizer = descent(model)
    model = DistributedDataParallel(model)
    if planned:
        model = lowtide.wrap(model, batches("gpt", rank)[0], optimizer=optimizer,
                             sharding=sharding, cache=False, time_limit=0.3)
    return model, optimizer


def copied_within_ddp(rank, make, planned=True):
    """What a copy learns, after the model that it is one of has; and whether that stays so."""
    model, optimizer = within_ddp(rank, "none", planned)
    trained(model, optimizer, batches("gpt", rank))
    before = parameters_of(model)
    copied = make(model)
    losses = trained(copied, descent(copied), batches("gpt", rank))
    after = parameters_of(model)
    return losses, parameters_of(copied), all(torch.equal(after[name], before[name])
                                              for name in before)


@pytest.mark.parametrize("make", [by_torch, by_pickle, averaged])
def test_a_copy_of_ddp_is_ddp_and_not_the_planned_one(two, make):
    for (losses, parameters, is_left), (wanted, others, _) in zip(
            two.run(copied_within_ddp, make), two.run(copied_within_ddp, by_torch, False)):
        assert is_left
        assert losses == pytest.approx(wanted, rel=1e-5)
        for name, parameter in parameters.items():
            torch.testing.assert_close(parameter, others[name], rtol=1e-4, atol=1e-5)


def refused_copies(rank):
    model, _ = within_ddp(rank, "full")
    messages = []
    for make in (by_torch, by_pickle):
        with pytest.raises(lowtide.InputError) as refused:
            make(model)
        messages.append(str(refused.value))
    return messages


def test_a_copy_of_ddp_in_shards_is_refused(two):
    for messages in two.run(refused_copies):
        assert all("Gpt lies in shards" in text and "state_dict()" in text for text in messages)


def copied(rank, sharding):
    """The warnings of two copies, what a call of one says, and how far an average of weights is
    from the mean of two states."""
    model = made("gpt")
    optimizer = descent(model)
    model = lowtide.wrap(model, batches("gpt", rank)[0], optimizer=optimizer, mesh=mesh_of(2),
                         sharding=sharding, cache=False, time_limit=0.3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        average = AveragedModel(model)
        copy.deepcopy(model)
    before = parameters_of(model)
    average.update_parameters(model)
    trained(model, optimizer, batches("gpt", rank))
    average.update_parameters(model)
    after, found = parameters_of(model), dict(average.module.named_parameters())
    distance = max((whole(found[name].detach()) - (before[name] + after[name]) / 2).abs().max()
                   for name in before).item()
    try:
        called = average(*batches("gpt", rank)[0]).item()
    except lowtide.InputError as error:
        called = str(error)
    return [str(one.message) for one in said], called, distance


@pytest.mark.parametrize("sharding", ["none", "full"])
def test_a_copy_holds_an_average_and_says_what_it_cannot_do(two, sharding):
    for said, called, distance in two.run(copied, sharding):
        assert distance < 1e-6
        if sharding == "none":
            assert isinstance(called, float)
            assert len(said) == 1 and "wrap it with the mesh" in said[0]
        else:
            assert said == []
            assert "copy of Gpt" in called and "state_dict()" in called


def joined(rank, is_within):
    """What is said of each way to join ranks."""
    if is_within:
        model, _ = within_ddp(rank, "none")
    else:
        model = lowtide.wrap(made("gpt"), batches("gpt", rank)[0], mesh=mesh_of(2),
                             sharding="none", cache=False, time_limit=0.3)
    messages = []
    for join in (lambda: Join([model]), lambda: model.join()):
        with pytest.raises(lowtide.InputError) as refused:
            join()
        messages.append(str(refused.value))
    return messages


@pytest.mark.parametrize("is_within", [False, True])
def test_ranks_of_one_plan_are_not_joined(two, is_within):
    for messages in two.run(joined, is_within):
        assert all(text.startswith("Gpt trains on all ranks by one plan") for text in messages)
