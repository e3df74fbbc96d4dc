"""Values that move to slower memory on several ranks: the bits of ranks on which nothing moves, in
the bytes of the budget, and one plan for all."""

import functools
import os
import pathlib
import random
import resource
import types
from unittest import mock

import lowtide
import pytest
import torch
from lowtide.pytorch import on_ranks
from lowtide.pytorch.plans import slower
from lowtide.pytorch.shards.sharding import candidates
from lowtide.pytorch.wrap import session_of
from rank_processes import RankProcesses
from shards_cases import descent, gathers, mesh_of, needed, parameters_of, ran
from sweep import sweep
from torch import nn
from torch_memory import profiled

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")

WIDTH = 128
#: Of a batch: the buffers of copies take 8 MiB, and values more.
ROWS = 8192
LAYERS = {"linear": lambda: nn.Linear(WIDTH, WIDTH), "gelu": nn.GELU, "tanh": nn.Tanh,
          "relu": nn.ReLU, "dropout": lambda: nn.Dropout(0.2), "norm": lambda: nn.LayerNorm(WIDTH),
          "statistics": lambda: nn.BatchNorm1d(WIDTH)}
PLAIN = 4 * ("linear", "tanh", "dropout")


class Stack(nn.Module):
    """Layers by name, and a loss."""

    def __init__(self, names):
        super().__init__()
        self.layers = nn.Sequential(*(LAYERS[name]() for name in names))

    def forward(self, x):
        return self.layers(x).square().mean()


def made(names):
    torch.manual_seed(3)
    return Stack(names)


def batches(rank, steps=3, rows=ROWS):
    generator = torch.Generator().manual_seed(100 + rank)
    return [torch.randn(rows, WIDTH, generator=generator) for _ in range(steps)]


def wrapped(names, rank, budget, folder=None, bandwidth="2GB/s", **options):
    """A wrapped model and its optimizer, with the buckets that are compared first."""
    torch._dynamo.reset()
    model = made(names)
    optimizer = descent(model)
    if folder is not None:
        options["offload"] = lowtide.Offload(folder, bandwidth=bandwidth, latency=50)
    options = {"cache": False, "time_limit": 0.3, "verbose": False, "sharding": "full",
               "stash": None} | options
    with mock.patch.object(on_ranks, "candidates", lambda *given: candidates(*given)[:1]):
        return lowtide.wrap(model, batches(rank)[0], budget, optimizer=optimizer, mesh=mesh_of(2),
                            **options), optimizer


def trained(model, optimizer, steps):
    """The losses, of dropouts that are the same in each training."""
    torch.manual_seed(5)
    losses = []
    for batch in steps:
        loss = model(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def losses_and_parameters(rank, names, budget, *folder, steps=3, **options):
    model, optimizer = wrapped(names, rank, budget, *folder, **options)
    return trained(model, optimizer, batches(rank, steps)), parameters_of(model), model.memory


def run(ranks, function, *arguments, **options):
    """By rank, what the function returns."""
    return ranks.run(functools.partial(function, **options), *arguments)


def require_same(found, expected):
    for (losses, parameters, *_), (others, other_parameters, *_) in zip(found, expected):
        assert losses == others
        assert parameters.keys() == other_parameters.keys()
        for name, parameter in parameters.items():
            assert torch.equal(parameter, other_parameters[name])


@pytest.mark.parametrize("sharding", sweep(["none", "gradients", "full"], usual=["none", "full"]))
def test_values_move_on_each_rank(two, tmp_path, sharding):
    expected = run(two, losses_and_parameters, PLAIN, None, sharding=sharding)
    found = run(two, losses_and_parameters, PLAIN, "60%", tmp_path, sharding=sharding,
                    strategy="offload")
    require_same(found, expected)
    for _, _, memory in found:
        assert memory.moved.bytes_out > 0 and memory.moved.bytes_in > 0
        assert memory.planned_peak <= memory.budget
        assert memory.measured_peak <= memory.budget
    assert list(tmp_path.iterdir()) == []  # files have no names


def predicted(rank, budget, folder):
    """Seconds of a step, and what it moves, by reruns alone and with moves."""
    found = []
    for given in ((), (folder, "5GB/s")):
        model, optimizer = wrapped(PLAIN, rank, budget, *given)
        trained(model, optimizer, batches(rank, 1))
        found.append((session_of(model).figures.predicted().seconds,
                      model.memory.moved.bytes_out, gathers(ran(model)), gathers(needed(model))))
    return found


@pytest.mark.parametrize("share", sweep(["50%", "60%", "80%", "95%"], usual=["60%"]))
def test_moves_are_never_predicted_to_take_longer_than_reruns_alone(two, tmp_path, share):
    first, second = run(two, predicted, share, tmp_path)
    assert first == second
    (without, _, _, _), (with_moves, _, _, _) = first
    assert with_moves <= without


def moved_within(rank, budget, folder, steps):
    """What PyTorch's allocator handed out at most in steps, with what lies beside it: the count is
    not Lowtide's."""
    model, optimizer = wrapped(PLAIN, rank, budget, folder, strategy="offload")
    given = batches(rank, 2 + steps)
    trained(model, optimizer, given[:2])
    assert "moves to slower memory" in lowtide.explain(model)
    held = sum(getattr(parameter, "_local_tensor", parameter).nbytes
               for parameter in model.parameters())
    session_of(model).release()
    peak, _, _ = profiled(lambda: trained(model, optimizer, given[2:]))
    return peak + 2 * held + given[0].nbytes + (8 << 20), model.memory.budget


def test_each_rank_keeps_the_budget(two, tmp_path):
    for peak, budget in run(two, moved_within, "60%", tmp_path, 2):
        assert peak <= budget


def with_speeds(rank, speeds, folder):
    """By disks of which each is as fast as is given for its rank."""
    with mock.patch.object(slower, "_speed", lambda memory, settings: speeds[rank]):
        torch._dynamo.reset()
        model = made(PLAIN)
        optimizer = descent(model)
        model = lowtide.wrap(model, batches(rank)[0], "60%", optimizer=optimizer, mesh=mesh_of(2),
                             offload=folder, cache=False, time_limit=0.3, sharding="full")
    session = session_of(model)
    (region,) = session.regions
    (place, _), = session._graphs.slower_memories[0].places
    return place, session.plan_for(region).format(), trained(model, optimizer, batches(rank))


def test_plans_are_for_the_slowest_disk(two, tmp_path):
    speeds = [((1e-4, 2e9), (5e-5, 0.0), False), ((5e-5, 1e9), (1e-4, 3e9), True)]
    (place, plan, _), (other, same, _) = run(two, with_speeds, speeds, tmp_path)
    assert place == other == ((pytest.approx(1e-4), 1e9), (pytest.approx(1e-4), 3e9), True)
    assert plan == same


class OneRank:
    """A group that says what it would of one rank."""

    def together(self, what, do):
        return do()

    def meet(self, what, about, *numbers):
        return [numbers]

    def largest(self, what, about, *numbers):
        return list(numbers)


def speed_of(offload):
    settings = types.SimpleNamespace(offload=offload, offload_budget=None, group=OneRank())
    (place, _), = slower.Slower(settings, "cpu").places
    return place


def test_a_speed_that_is_given_counts_and_another_is_measured_once(tmp_path, monkeypatch):
    speeds = [((1e-3, 1e6), (2e-3, 2e6), True), ((1e-3, 3e6), (2e-3, 3e6), True)]
    monkeypatch.setattr(slower, "_speed", lambda memory, settings: speeds.pop(0))
    assert speed_of(lowtide.Offload(tmp_path)) == ((1e-3, 1e6), (2e-3, 2e6), True)
    for rate in (2e9, 5e9):
        given = lowtide.Offload(tmp_path, bandwidth=f"{rate / 1e9:g}GB/s")
        assert speed_of(given) == ((0.0, rate), (0.0, rate), False)
    assert speed_of(lowtide.Offload(tmp_path)) == ((1e-3, 1e6), (2e-3, 2e6), True)


def refused(rank, budget, folder):
    """The smallest budget that is named, and what a step takes within it."""
    with pytest.raises(lowtide.InfeasibleError) as caught:
        wrapped(PLAIN, rank, budget, folder, sharding=None, time_limit=0.1)
    smallest = caught.value.smallest_budget
    model, optimizer = wrapped(PLAIN, rank, smallest, folder, sharding=None,
                               time_limit=0.1)
    trained(model, optimizer, batches(rank, 2))
    return smallest, model.memory.measured_peak


def test_the_smallest_budget_that_a_refusal_names_is_enough(two, tmp_path):
    (smallest, peak), (same, other) = run(two, refused, 1000, tmp_path)
    assert smallest == same
    assert max(peak, other) <= smallest


def accumulated(rank, budget, *folder, **options):
    """Two passes, the first one without communication."""
    model, optimizer = wrapped(PLAIN, rank, budget, *folder, **options)
    torch.manual_seed(5)
    first, second = batches(rank, 2)
    with model.no_sync():
        model(first).backward()
    model(second).backward()
    optimizer.step()
    return [], parameters_of(model), model.memory


@pytest.mark.parametrize("sharding", sweep(["none", "full"], usual=["none"]))
def test_gradients_add_up_without_communication(two, tmp_path, sharding):
    expected = run(two, accumulated, None, sharding=sharding)
    found = run(two, accumulated, "80%", tmp_path, sharding=sharding, strategy="offload")
    require_same(found, expected)
    for _, _, memory in found:
        assert memory.moved.bytes_out > 0
        assert memory.measured_peak <= memory.budget


def in_a_loop(rank, budget, *folder, change=None, **options):
    """Two passes that wait, another size, and another budget."""
    model, optimizer = wrapped(PLAIN, rank, budget, *folder, **options)
    first, second, third = batches(rank)
    losses = trained(model, optimizer, [first])
    (model(second) + model(third)).backward()
    optimizer.step()
    optimizer.zero_grad()
    if change is not None:
        model.budget = int(change * model.budget)
    losses += trained(model, optimizer, [third[:ROWS // 2], first])
    return losses, parameters_of(model), model.memory


@pytest.mark.parametrize("sharding, budget, change", sweep(
    [(sharding, budget, change) for sharding in ("none", "full")
     for budget, change in (("75%", 1.4), ("95%", 0.9))], usual=[]))
def test_loops_of_every_kind(two, tmp_path, sharding, budget, change):
    expected = run(two, in_a_loop, None, sharding=sharding)
    found = run(two, in_a_loop, budget, tmp_path, sharding=sharding, change=change)
    require_same(found, expected)
    for _, _, memory in found:
        assert memory.measured_peak <= memory.budget


def on_a_full_disk(rank, folder):
    """The error of each rank, where one of them may write small files only."""
    wrapped(PLAIN, rank, "60%", folder, cache=True)  # measures ops; files of that are larger
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(lowtide.Error) as caught:
            wrapped(PLAIN, rank, "60%", folder, cache=True, strategy="offload")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    return str(caught.value)


def test_a_full_disk_of_one_rank_is_an_error_of_all(two, tmp_path):
    first, second = run(two, on_a_full_disk, tmp_path)
    assert first.startswith("rank 1 of 2 failed to take room in slower memory: ")
    assert second in first and str(tmp_path) in second


def refusals(rank, folder):
    messages = []
    for options in ({"parameters": True}, {"optimizer_state": True}):
        with pytest.raises(lowtide.InputError) as caught:
            lowtide.wrap(made(PLAIN), batches(rank)[0], "60%", mesh=mesh_of(2), sharding="full",
                         offload=lowtide.Offload(folder, **options))
        messages.append(str(caught.value))
    return messages


def test_only_values_move(two, tmp_path):
    for first, second in run(two, refusals, tmp_path):
        assert first.startswith("parameters=True") and "mesh" in first
        assert second.startswith("optimizer_state=True") and "mesh" in second


def failing(folder):
    """The file of one rank ends within its third step."""
    comm = lowtide.Communicator.create()
    torch.set_num_threads(1)
    model, optimizer = wrapped(PLAIN, comm.rank, "60%", folder, strategy="offload")
    with lowtide.Watchdog(comm, timeout=20.0, model=model):
        for step, batch in enumerate(batches(comm.rank, 4)):
            loss = model(batch)
            for file in files_in(folder) if step == 2 and comm.rank == 1 else ():
                os.ftruncate(file, 0)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


def files_in(folder):
    """Descriptors of this process of files without a name there."""
    return [int(link.name) for link in pathlib.Path("/proc/self/fd").iterdir()
            if os.path.realpath(link).startswith(f"{folder}/")]


def test_a_disk_that_fails_on_one_rank_ends_all(tmp_path, own_cache):
    values = tmp_path / "values"
    values.mkdir()
    with RankProcesses(tmp_path, failing, 2, values) as ranks:
        first, second = ranks.outcomes(120)
    kind, text = first.error
    assert kind == "RankError" and text.startswith("rank 1 of 2 failed: "), text
    assert str(values) in text, text
    assert second.error[0] == "Error" and second.error[1].splitlines()[0] in text


def drawn(seed):
    choose = random.Random(seed)
    names = [choose.choice(list(LAYERS)) for _ in range(6)]
    return ("linear", "relu", *names, "linear", "dropout"), {
        "sharding": choose.choice(["none", "gradients", "full"]),
        "strategy": choose.choice([None, "offload"]), "fused_update": choose.random() < 0.3,
        "offload_budget": choose.choice([None, "6MiB"])}, choose.choice(
            ["300MB/s", "2GB/s,1GB/s", "30GB/s"]), choose.choice([60, 75, 90])


def first_that_fits(rank, names, percent, folder, bandwidth, **options):
    for share in range(percent, 101, 5):
        try:
            return losses_and_parameters(rank, names, f"{share}%", folder, bandwidth,
                                         **options)
        except lowtide.InfeasibleError:
            continue
    raise AssertionError("no plan even with all of the memory")


@pytest.mark.parametrize("seed", sweep(range(20), usual=[]))
def test_random_models(two, tmp_path, seed):
    names, options, bandwidth, percent = drawn(seed)
    expected = run(two, losses_and_parameters, names, None, sharding=options["sharding"],
                   fused_update=options["fused_update"])
    found = run(two, first_that_fits, names, percent, tmp_path, bandwidth, **options)
    require_same(found, expected)
    for _, _, memory in found:
        assert memory.measured_peak <= memory.budget
