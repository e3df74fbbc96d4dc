"""Updates within the backward pass on two ranks: each shard by its part of the mean."""

import itertools
import math
import random

import lowtide
import pytest
import torch
from shards_cases import (
    adam,
    batches,
    descent,
    made,
    mesh_of,
    parameters_of,
    trained,
    whole,
    wrapped,
)
from sweep import sweep

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")

OPTIMIZERS = {"adam": adam, "descent": descent}


def updated(rank, ranks, case, sharding, optimizer, how, budget=None):
    """Losses, parameters, and whether a gradient is left after a backward pass."""
    model, stepped = wrapped(case, rank, ranks, OPTIMIZERS[optimizer], sharding=sharding,
                             fused_update=how, budget=budget)
    losses = trained(model, stepped, batches(case, rank, 3))
    peak = model.memory.measured_peak
    model(*batches(case, rank)[0]).backward()
    left = sum(whole_bytes(parameter.grad) for parameter in model.parameters()
               if type(parameter.grad) is torch.Tensor or hasattr(parameter.grad, "_local_tensor"))
    norm = model.gradient_norm if isinstance(how, lowtide.FusedUpdate) and how.clips else None
    stepped.step()
    return losses, parameters_of(model), left, peak, norm


def whole_bytes(tensor):
    return getattr(tensor, "_local_tensor", tensor).nbytes


def stepped_after(rank, ranks, case, sharding, optimizer, clip=None):
    model, stepped = wrapped(case, rank, ranks, OPTIMIZERS[optimizer], sharding=sharding)
    losses, norm = [], None
    for batch in [*batches(case, rank, 3), batches(case, rank)[0]]:
        loss = model(*batch)
        loss.backward()
        if clip is not None:
            norm = whole(torch.nn.utils.clip_grad_norm_(
                model.parameters(), clip.max_norm, clip.norm_type)).item()
        stepped.step()
        stepped.zero_grad()
        losses.append(loss.item())
    return losses[:3], parameters_of(model), norm


@pytest.mark.parametrize("case, sharding, optimizer", sweep(
    itertools.product(["gpt", "layers", "convolutions"], ["none", "gradients", "full"],
                      ["adam", "descent"]),
    usual=[("layers", "full", "adam"), ("gpt", "none", "adam")]))
def test_a_shard_is_updated_as_by_a_step_afterwards(two, case, sharding, optimizer):
    """By the same sums, so in the same bits."""
    for (losses, parameters, left, *_), (wanted, others, _) in zip(
            two.run(updated, 2, case, sharding, optimizer, True),
            two.run(stepped_after, 2, case, sharding, optimizer)):
        assert losses == wanted and left == 0
        for name, parameter in parameters.items():
            assert torch.equal(parameter, others[name]), name


@pytest.mark.parametrize("case, sharding, norm_type", sweep(
    itertools.product(["gpt", "layers"], ["none", "gradients", "full"], [2.0, math.inf]),
    usual=[("layers", "full", 2.0)]))
def test_gradients_are_clipped_by_the_norm_over_all_ranks(two, case, sharding, norm_type):
    clip = lowtide.FusedUpdate(max_norm=0.05, norm_type=norm_type)
    for (losses, parameters, _, _, norm), (wanted, others, other_norm) in zip(
            two.run(updated, 2, case, sharding, "adam", clip),
            two.run(stepped_after, 2, case, sharding, "adam", clip)):
        assert norm == pytest.approx(other_norm, rel=1e-5)
        assert losses == pytest.approx(wanted, rel=1e-5)
        for name, parameter in parameters.items():
            torch.testing.assert_close(parameter, others[name], rtol=1e-3, atol=1e-4)


def smallest_budget(rank, ranks, sharding, how):
    with pytest.raises(lowtide.InfeasibleError) as refused:
        wrapped("deep", rank, ranks, sharding=sharding, fused_update=how, budget=1000)
    return refused.value.smallest_budget


def check_within(two, sharding, budget):
    """Losses as without a budget, no gradient left, and the bytes of the budget kept."""
    for (losses, _, left, peak, _), (wanted, *_) in zip(
            two.run(updated, 2, "deep", sharding, "adam", True, budget),
            two.run(stepped_after, 2, "deep", sharding, "adam")):
        assert losses == pytest.approx(wanted, rel=1e-5) and left == 0
        assert 0 < peak <= budget


@pytest.mark.parametrize("seed", sweep(range(3), usual=[0]))
def test_budgets_may_be_smaller(two, seed):
    """Than those that have room for all gradients at once."""
    with_all = max(two.run(smallest_budget, 2, "none", False))
    without = max(two.run(smallest_budget, 2, "none", True))
    assert without < with_all
    check_within(two, "none", random.Random(seed).randrange(without, with_all))


@pytest.mark.parametrize("sharding, seed", sweep(
    itertools.product(["gradients", "full"], range(3)), usual=[("full", 1)]))
def test_shards_keep_their_budget(two, sharding, seed):
    smallest = max(two.run(smallest_budget, 2, sharding, True))
    check_within(two, sharding, int(smallest * random.Random(seed).uniform(1.02, 1.4)))


def refused_with_updates(rank, ranks):
    model, _ = wrapped("layers", rank, ranks, sharding="none", fused_update=True)
    with pytest.raises(lowtide.InputError) as summed:
        model.no_sync()
    other = made("layers")
    with pytest.raises(lowtide.InputError) as unknown:
        lowtide.wrap(other, optimizer=torch.optim.LBFGS(other.parameters()), sharding="full",
                     mesh=mesh_of(ranks), fused_update=True)
    assert not any(hasattr(parameter, "_local_tensor") for parameter in other.parameters())
    return str(summed.value), str(unknown.value)


def test_what_updates_cannot_do_is_said(two):
    for summed, unknown in two.run(refused_with_updates, 2):
        assert "no_sync" in summed and "fused_update" in summed
        assert "LBFGS" in unknown
