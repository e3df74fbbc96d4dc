"""Tuning with a mesh: two ranks rank the same, and each keeps the budget."""

import copy

import lowtide
import pytest
import torch
from lowtide.pytorch.tune import mesh_search, trial
from shards_cases import Gpt
from torch.distributed.device_mesh import init_device_mesh

pytestmark = pytest.mark.cpu_only("ranks talk over Gloo")

QUICK = {"time_limit": 0.2, "verbose": False, "precisions": (), "ways": ("micro_batches",)}


def step_of(rank):
    torch.manual_seed(rank)
    model = Gpt(vocabulary=200, width=64, layers=1)
    draw = torch.Generator().manual_seed(rank)
    return model, tuple(torch.randint(0, 200, (4, 16), generator=draw) for _ in range(2))


@pytest.fixture(scope="module", name="peaks")
def keep_all_peaks(two):
    """Bytes on each rank when every value is kept, by sharding."""
    return {sharding: max(two.run(keep_all_peak, sharding)) for sharding in ("none", "full")}


def keep_all_peak(rank, sharding):
    model, batch = step_of(rank)
    mesh = init_device_mesh("cpu", (2,))
    return lowtide.wrap(model, batch, optimizer="adam", mesh=mesh, sharding=sharding,
                        time_limit=0.2, verbose=False).memory.planned_peak


def tuned(rank, budget, settings):
    """The ranking, whether the model is as before, and what the best then takes."""
    model, batch = step_of(rank)
    optimizer = torch.optim.Adam(model.parameters())
    before = copy.deepcopy(model.state_dict())
    mesh = init_device_mesh("cpu", (2,))
    found = lowtide.tune(model, batch, budget, optimizer=optimizer, mesh=mesh,
                         **{**QUICK, **settings})
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(type(parameter) is torch.nn.Parameter for parameter in model.parameters())
    assert [group["params"] for group in optimizer.param_groups] == [list(model.parameters())]
    ranking = [(one.combination, one.fits, one.measured, one.peak) for one in found.ranked]
    peak = None
    if found.best is not None:
        rows = len(batch[0]) // found.micro_batches
        part = tuple(tensor[:rows] for tensor in batch)
        names = {"lowtide": lowtide, "model": model, "inputs": part, "optimizer": optimizer,
                 "mesh": mesh}
        exec(found.code, names)
        for _ in range(2):
            for _ in range(found.micro_batches):
                (names["model"](*part) / found.micro_batches).backward()
            optimizer.step()
            optimizer.zero_grad()
        memory = names["model"].memory
        peak = memory.measured_peak - memory.outside
    return ranking, str(found), found.code, sorted(found.settings), peak


@pytest.mark.sweep
def test_where_all_fits_each_rank_may_have_the_whole_model(two, peaks):
    """Others are tried only where copies are predicted to be slower."""
    (ranking, text, code, settings, _), other = two.run(tuned, 2 * peaks["none"], {})
    assert ranking == other[0]
    whole = next(one for one in ranking
                 if one[0].sharding == "none" and one[0].micro_batches == 1)
    assert whole[1]
    chosen = ranking[0][0].sharding
    assert f"sharding {chosen}" in text
    assert f"sharding='{chosen}', mesh=mesh" in code and {"mesh", "sharding"} <= set(settings)


@pytest.mark.sweep
def test_an_update_in_the_backward_pass_is_one_of_the_ways(two, peaks):
    budget = int(0.9 * peaks["full"])
    (ranking, text, code, _, peak), other = two.run(tuned, budget, {"ways": ("fused_update",)})
    assert ranking == other[0]
    least = {(one.fused_update, one.sharding): size for one, _, _, size in ranking}
    assert {(False, "none"), (True, "none"), (False, "full")} <= least.keys(), text
    assert least[True, "none"] < least[False, "none"]
    assert peak <= budget
    assert ("fused_update=True" in code) == ranking[0][0].fused_update


def test_within_a_budget_both_ranks_have_one_ranking_and_keep_it(two, peaks):
    assert peaks["full"] < peaks["none"]
    budget = peaks["full"]
    (ranking, text, _, _, peak), other = two.run(tuned, budget, {"ways": ()})
    assert ranking == other[0]
    tried = {combination.sharding for combination, *_ in ranking}
    assert tried == {"none", "gradients", "full"}
    assert ranking[0][0].sharding in ("gradients", "full")
    assert all(run.is_within for _, fits, run, _ in ranking if fits and run is not None)
    assert max(peak, other[4]) <= budget
    assert f"sharding {ranking[0][0].sharding}" in text


def test_a_stage_of_deepspeed_is_a_sharding(two, peaks):
    configuration = {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}
    (ranking, text, *_), other = two.run(tuned, 2 * peaks["none"],
                                         {"deepspeed": configuration, "ways": ()})
    assert ranking == other[0]
    assert [combination.sharding for combination, *_ in ranking] == ["full"]
    assert "zero_optimization.stage: sharding=\"full\" with a mesh" in text
    assert "zero_optimization.offload_optimizer: not done: nothing moves" in text


def ranked_with_one_that_takes_more(rank, budget):
    """Rank 1 measures more than the budget of copies on each rank."""
    before = mesh_search.measured_for_good

    def too_much(model, inputs, budget, combination, settings, updates, steps):
        is_over = rank == 1 and combination.sharding == "none"
        return trial.Measured(1.0, budget + is_over, budget)

    mesh_search.measured_for_good = too_much
    try:
        model, batch = step_of(rank)
        found = lowtide.tune(model, batch, budget, optimizer="adam",
                             mesh=init_device_mesh("cpu", (2,)), **{**QUICK, "ways": ()})
    finally:
        mesh_search.measured_for_good = before
    return [(one.combination.sharding, one.fits, one.reason) for one in found.ranked]


def test_what_exceeds_the_budget_on_one_rank_fits_on_none(two, peaks):
    here, there = two.run(ranked_with_one_that_takes_more, int(0.97 * peaks["none"]))
    assert here == there
    assert here[0][:2] != ("none", True)
    (reason,) = [reason for sharding, fits, reason in here if sharding == "none" and not fits]
    assert "a step took" in reason


def refusals(rank):
    model, batch = step_of(rank)
    mesh = init_device_mesh("cpu", (2,))
    found = []
    for settings in ({"offload": "/tmp"}, {"shardings": ("half",)}, {"shardings": ()}):
        try:
            lowtide.tune(model, batch, "1GiB", mesh=mesh, **{**QUICK, **settings})
        except lowtide.InputError as error:
            found.append(str(error))
    try:
        lowtide.max_batch(lambda size: (model, batch), "1GiB", mesh=mesh)
    except lowtide.InputError as error:
        found.append(str(error))
    return found


def test_what_is_not_for_a_mesh_is_refused(two):
    here, there = two.run(refusals)
    assert here == there and len(here) == 4
    assert "leave offload out" in here[0] and "shardings" in here[0]
    assert "no sharding 'half'" in here[1] and "at least one" in here[2]
    assert 'lowtide.tune(make_step, None, budget, goal="batch", mesh=mesh)' in here[3]


def layers_of(size):
    torch.manual_seed(0)
    layers = [layer for _ in range(5) for layer in (torch.nn.Linear(128, 128), torch.nn.Tanh())]
    return torch.nn.Sequential(*layers), torch.randn(size, 64, 128)


def largest_batch(rank, budget):
    """The ranking, and the sizes that this rank was asked for, of the proof at last."""
    asked = []

    def make_step(size):
        asked.append(size)
        return layers_of(size)

    found = lowtide.tune(make_step, None, budget, goal="batch", optimizer="adam",
                         mesh=init_device_mesh("cpu", (2,)),
                         **{**QUICK, "shardings": ("none", "full")})
    return [(one.combination.sharding, one.size, one.measured) for one in found.ranked], asked


def fits(rank, size, sharding, budget):
    mesh = init_device_mesh("cpu", (2,))
    try:
        lowtide.wrap(*layers_of(size), budget, optimizer="adam", mesh=mesh, sharding=sharding,
                     time_limit=0.2, verbose=False)
    except lowtide.InfeasibleError:
        return False
    return True


def test_the_largest_batch_of_both_ranks(two):
    budget = 1_700_000
    (ranking, asked), other = two.run(largest_batch, budget)
    assert ranking == other[0] and asked == other[1]
    sizes = {sharding: size for sharding, size, _ in ranking}
    (sharding, largest, run), _ = ranking
    assert sharding == "full" and largest > sizes["none"] >= 1, ranking
    assert run.is_within and asked[-1] == largest
    assert two.run(fits, largest, "full", budget) == [True, True]
    assert two.run(fits, largest + 1, "full", budget) == [False, False]


def test_a_function_of_a_size_that_fails_on_one_rank_fails_on_both(two):
    here, there = two.run(failing_step)
    assert "no data here" in there and "make a step of size" in here


def failing_step(rank):
    def make_step(size):
        if rank == 1:
            raise ValueError("no data here")
        return step_of(rank)

    try:
        lowtide.tune(make_step, None, "1GiB", goal="batch", mesh=init_device_mesh("cpu", (2,)),
                     **QUICK)
    except (ValueError, lowtide.Error) as error:
        return str(error)
    return "no error"
