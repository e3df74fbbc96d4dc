"""Checkpoints of many ranks: a training that goes on from one is the one that was not interrupted,
on as many ranks or on others, whenever it is killed."""

import json
import os
import pickle
import random
import shutil
import signal
import sys
import threading
import time

import lowtide
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from checkpoint_cases import training
from lowtide.pytorch.ranks.checkpoint_folder import MANIFEST, CheckpointFolder
from rank_processes import RankProcesses, values_of_ranks
from sweep import sweep

pytestmark = pytest.mark.cpu_only("the ranks of these tests are on the CPU")

KINDS = ("replicated", "sharded")


@pytest.mark.parametrize("kind", sweep(KINDS, usual=["sharded"]))
def test_a_training_goes_on_as_if_it_had_not_been_interrupted(tmp_path, kind):
    """In every bit, random numbers of dropout included."""
    def run(folder, steps):
        return values_of_ranks(tmp_path, dropped_out, 2, tmp_path / folder, kind, steps)

    whole, first, second = run("whole", 6), run("parts", 3), run("parts", 6)
    for rank in range(2):
        assert (first[rank][0], second[rank][0]) == (0, 3)
        assert whole[rank][1] == first[rank][1] + second[rank][1]
        assert second[rank][2] == first[rank][3]
        assert whole[rank][3] == second[rank][3]


def dropped_out(folder, kind, steps):
    return training(folder, kind, steps, dropout=0.3)


CHANGES = [(4, 2, kind) for kind in KINDS] + [(2, 3, "sharded"), (1, 4, "sharded"),
                                              (3, 1, "replicated"), (2, 4, "replicated")]


@pytest.mark.parametrize("before, after, kind", sweep(CHANGES, usual=[(4, 2, "sharded")]))
def test_another_number_of_ranks_goes_on(tmp_path, before, after, kind):
    """From the same bits. Losses are equal but for rounding: gradients add up in another order."""
    whole = values_of_ranks(tmp_path, training, before, tmp_path / "whole", kind, 6)
    first = values_of_ranks(tmp_path, training, before, tmp_path / "parts", kind, 3)
    second = values_of_ranks(tmp_path, training, after, tmp_path / "parts", kind, 6)
    for begin, losses, digest, _ in second:
        assert begin == 3 and digest == first[0][3]
        assert first[0][1] + losses == pytest.approx(whole[0][1], rel=1e-12)


def signalled(folder, kind, steps, signs):
    return training(folder, kind, steps, signs=signs)


def killed_after(ranks, seconds):
    time.sleep(seconds)
    for rank, process in enumerate(ranks.processes):
        if process.is_alive():
            ranks.signal(rank, signal.SIGKILL)


@pytest.mark.parametrize("kills", sweep([3, 40], usual=[3]))
def test_a_training_that_is_killed_at_random_ends_as_one_that_is_not(tmp_path, kills):
    signs, steps, draw = tmp_path / "signs", 2 * kills + 6, random.Random(kills)
    signs.mkdir()
    whole = values_of_ranks(tmp_path, training, 2, tmp_path / "whole", "sharded", steps)
    for _ in range(kills):
        complete = len(list(signs.glob("complete-*")))
        with RankProcesses(tmp_path, signalled, 2, tmp_path / "run", "sharded", steps,
                           signs) as ranks:
            if complete < steps - 4:  # else it would be over
                ranks.wait_for(f"signs/begun-{complete + 1 + draw.randrange(2):04d}")
            killed_after(ranks, draw.uniform(0, 0.05))
    begin, losses, _, digest = values_of_ranks(
        tmp_path, training, 2, tmp_path / "run", "sharded", steps)[0]
    assert begin >= len(list(signs.glob("complete-*"))) - (begin == steps)
    assert losses == whole[0][1][begin:] and digest == whole[0][3]
    left = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert left == [".lock", f"step-{steps - 1:08d}", f"step-{steps:08d}"]


def dies_at_event(folder, number):
    """Two checkpoints; the process is killed just before its so manieth change of the folder.
    Returns their number."""
    count, text = 0, os.fspath(folder)

    def hook(event, arguments):
        nonlocal count
        named = [argument for argument in arguments if isinstance(argument, (str, os.PathLike))]
        if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir") and any(
                os.fspath(path).startswith(text) for path in named):
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    comm = lowtide.Communicator.create()
    with lowtide.Checkpointer(folder, comm, keep=1) as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, filled(step))
    return count


def filled(number):
    model = torch.nn.Linear(3, 2)
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, number)
    return model


@pytest.fixture
def alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with lowtide.Communicator.create() as comm:
        yield comm


@pytest.mark.parametrize("every", sweep([4, 1], usual=[4]))
def test_a_kill_at_any_change_of_the_folder_leaves_a_whole_checkpoint(tmp_path, alone, every):
    (events,) = values_of_ranks(tmp_path, dies_at_event, 1, tmp_path / "count", 0)
    assert events > 10
    found = []
    for number in range(1, events + 1, every):
        folder = tmp_path / f"run-{number}"
        with RankProcesses(tmp_path, dies_at_event, 1, folder, number) as ranks:
            (outcome,) = ranks.outcomes()
        assert outcome.exit == -signal.SIGKILL, outcome.printed
        with lowtide.Checkpointer(folder, alone) as checkpoints:
            model = filled(0)
            restored = checkpoints.load(model)
            found.append(0 if restored is None else restored.step)
            assert all((parameter == found[-1]).all() for parameter in model.parameters())
            assert not list(folder.glob(".step-*"))
    assert found == sorted(found) and set(found) >= {0, 1} and (every > 1 or 2 in found)


def unusual_model():
    """Tied parameters, channels last, no dimensions, several types, a frozen parameter."""
    torch.manual_seed(1)
    model = torch.nn.ModuleDict({
        "image": torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)),
        "first": torch.nn.Linear(4, 4), "second": torch.nn.Linear(4, 4)})
    model.to(memory_format=torch.channels_last)
    model["second"].weight = model["first"].weight
    model["second"].bias.requires_grad_(False)
    model.scale = torch.nn.Parameter(torch.tensor(0.5))
    model.short = torch.nn.Parameter(torch.randn(3).bfloat16())
    model.register_buffer("empty", torch.empty(0))
    model.register_buffer("mask", torch.tensor([True, False]))
    return model


def unusual_step(model, optimizer):
    hidden = model["image"](torch.randn(2, 3, 5, 5).contiguous(memory_format=torch.channels_last))
    hidden = model["second"](model["first"](hidden.mean((2, 3)))) * model.scale
    (hidden.sum() + model.short.sum()).backward()
    optimizer.step()
    optimizer.zero_grad()


def unusual_training():
    model = unusual_model()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return model, torch.optim.Adam([{"params": trained[:2], "lr": 0.5}, {"params": trained[2:]}])


def test_tensors_of_all_kinds_go_round(tmp_path, alone):
    model, optimizer = unusual_training()
    unusual_step(model, optimizer)
    with lowtide.Checkpointer(tmp_path, alone) as checkpoints:
        checkpoints.save(1, model, optimizer, extra={"epoch": 3, "order": [2, 0, 1]})
        expected = random.random(), torch.rand(1)
        unusual_step(model, optimizer)  # while it is written
    again, its_optimizer = unusual_training()
    torch.nn.init.zeros_(again.short)
    with lowtide.Checkpointer(tmp_path, alone) as checkpoints:
        restored = checkpoints.load(again, its_optimizer)
    assert (restored.step, restored.extra, restored.ranks) == (
        1, {"epoch": 3, "order": [2, 0, 1]}, 1)
    assert (random.random(), torch.rand(1)) == expected
    assert again["second"].weight is again["first"].weight
    unusual_step(again, its_optimizer)
    for (name, ours), theirs in zip(again.state_dict().items(), model.state_dict().values()):
        assert torch.equal(ours, theirs) and ours.stride() == theirs.stride(), name
    assert [group["betas"] for group in its_optimizer.param_groups] == [(0.9, 0.999)] * 2


def test_a_checkpoint_is_written_while_the_training_goes_on(tmp_path, alone, monkeypatch):
    may_write, write_data = threading.Event(), dcp.HuggingFaceStorageWriter.write_data

    def late(*arguments):
        assert may_write.wait(60)
        return write_data(*arguments)

    monkeypatch.setattr(dcp.HuggingFaceStorageWriter, "write_data", late)
    model = filled(1)
    with lowtide.Checkpointer(tmp_path, alone) as checkpoints:
        checkpoints.save(1, model)
        torch.nn.init.constant_(model.weight, 2)
        assert CheckpointFolder(tmp_path).newest() is None
        may_write.set()
        assert checkpoints.load(model).step == 1  # waits for it
    assert (model.weight == 1).all()


def test_loading_runs_no_code_of_a_file(tmp_path, alone):
    with lowtide.Checkpointer(tmp_path / "run", alone) as checkpoints:
        checkpoints.save(1, filled(1))
    folder = tmp_path / "run" / "step-00000001"
    assert {path.suffix for path in folder.iterdir()} == {".safetensors", ".json"}
    code = pickle.dumps(Touches(tmp_path / "touched"))
    pickle.loads(code).close()
    assert (tmp_path / "touched").exists()
    (tmp_path / "touched").unlink()
    for name in (".metadata", "__0_0.distcp", "model.pt"):
        (folder / name).write_bytes(code)
    with lowtide.Checkpointer(tmp_path / "run", alone) as checkpoints:
        assert checkpoints.load(filled(0)).step == 1
    assert not (tmp_path / "touched").exists()


class Touches:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_an_incomplete_checkpoint_is_passed_over(tmp_path, alone):
    with lowtide.Checkpointer(tmp_path, alone, keep=5) as checkpoints:
        for step in (1, 2, 3, 4):
            checkpoints.save(step, filled(step))
    (next((tmp_path / "step-00000004").glob("*.safetensors"))).unlink()
    (tmp_path / "step-00000003" / MANIFEST).write_text("{")
    with lowtide.Checkpointer(tmp_path, alone) as checkpoints:
        model = filled(0)
        assert checkpoints.load(model).step == 2 and (model.weight == 2).all()
        checkpoints.save(3, model)  # in the place of the one that is damaged
        assert checkpoints.load(model).step == 3


def test_a_damaged_file_is_named(tmp_path, alone):
    with lowtide.Checkpointer(tmp_path, alone) as checkpoints:
        checkpoints.save(1, filled(1))
        checkpoints.wait()
        file = next((tmp_path / "step-00000001").glob("*.safetensors"))
        file.write_bytes(b"\xff" * file.stat().st_size)
        with pytest.raises(lowtide.InputError, match="step-00000001 cannot be read on rank 0"):
            checkpoints.load(filled(0))


def test_old_checkpoints_are_removed(tmp_path, alone):
    with lowtide.Checkpointer(tmp_path, alone, keep=2) as checkpoints:
        for step in range(5):
            checkpoints.save(step, filled(step))
    assert sorted(path.name for path in tmp_path.glob("*")) == [
        ".lock", "step-00000003", "step-00000004"]
    with pytest.raises(lowtide.InputError, match="step 4 is not after it"):
        lowtide.Checkpointer(tmp_path, alone).save(4, filled(4))


def test_a_folder_has_one_training(tmp_path, alone):
    with (lowtide.Checkpointer(tmp_path, alone),
          pytest.raises(lowtide.InputError, match="another training writes its checkpoints")):
        lowtide.Checkpointer(tmp_path, alone)
    lowtide.Checkpointer(tmp_path, alone).close()


@pytest.mark.parametrize("change, message", [
    ({"version": 2}, "version 2"), ({"format": "x"}, "format 'x'"), ({"ranks": "2"}, "lacks ranks"),
    ({"values": None}, "lacks values"), ({"tensors": {"model.weight": "float32[9, 3]"}},
                                         "it has model.bias = nothing instead of float32"),
])
def test_a_manifest_of_something_else_is_refused(tmp_path, alone, change, message):
    with lowtide.Checkpointer(tmp_path, alone) as checkpoints:
        checkpoints.save(1, filled(1))
    path = tmp_path / "step-00000001" / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with (pytest.raises(lowtide.InputError, match=message),
          lowtide.Checkpointer(tmp_path, alone) as checkpoints):
        checkpoints.load(filled(0))


def test_another_model_or_optimizer_is_refused(tmp_path, alone):
    with lowtide.Checkpointer(tmp_path, alone) as checkpoints:
        model = filled(1)
        checkpoints.save(1, model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))
        with pytest.raises(lowtide.InputError, match="float32.2. instead of nothing"):
            checkpoints.load(torch.nn.Linear(3, 2, bias=False))
        with pytest.raises(lowtide.InputError, match="momentum_buffer = float32"):
            checkpoints.load(model, torch.optim.SGD(model.parameters(), 0.1))


@pytest.mark.parametrize("wrong, message", [
    ({"step": -1}, "step must be"), ({"extra": {"a": object()}}, "extra must be a dict"),
    ({"extra": [1]}, "extra must be a dict"), ({"extra": {"a": float("nan")}}, "extra must be"),
])
def test_wrong_arguments_are_refused(tmp_path, alone, wrong, message):
    with lowtide.Checkpointer(tmp_path, alone) as checkpoints:
        with pytest.raises(lowtide.InputError, match=message):
            checkpoints.save(**{"step": 1, "model": filled(1), **wrong})
        assert checkpoints.load(filled(1)) is None


def test_a_folder_that_cannot_be_made_is_refused(tmp_path, alone):
    (tmp_path / "file").touch()
    with pytest.raises(lowtide.InputError, match="cannot hold checkpoints"):
        lowtide.Checkpointer(tmp_path / "file" / "run", alone)


def full_disk(folder):
    comm = lowtide.Communicator.create()
    write_data = dcp.HuggingFaceStorageWriter.write_data

    def fails(self, plan, planner):
        raise OSError(28, "No space left on device")

    if comm.rank == 1:
        dcp.HuggingFaceStorageWriter.write_data = fails
    model = torch.nn.parallel.DistributedDataParallel(filled(1))
    with lowtide.Checkpointer(folder, comm) as checkpoints:
        checkpoints.save(1, model)
        with pytest.raises(lowtide.RankError) as caught:
            checkpoints.wait()
        assert checkpoints.load(model) is None
        assert [path.name for path in folder.iterdir()] == [".lock"]
        comm.barrier()  # the first rank's next save writes to the folder that the second looks at
        dcp.HuggingFaceStorageWriter.write_data = write_data
        checkpoints.save(1, model)
        assert checkpoints.load(model).step == 1
    return caught.value.rank, str(caught.value)


def test_a_rank_that_cannot_write_is_named_on_all(tmp_path):
    first, second = values_of_ranks(tmp_path, full_disk, 2, tmp_path / "run")
    assert first == second
    assert first[0] == 1 and "No space left on device" in first[1]


def test_names_of_files_stay_in_their_folder(tmp_path):
    folder = CheckpointFolder(tmp_path)
    os.close(folder.locked())
    folder.begin(1)
    folder.publish(1, {})
    assert folder.newest()[1] == {"files": {}}
    (tmp_path / "outside").touch()
    (tmp_path / "step-00000001" / MANIFEST).write_text('{"files": {"../outside": 0}}')
    assert folder.newest() is None
    shutil.rmtree(tmp_path / "step-00000001")
    assert folder.newest() is None


def test_no_group_has_the_name_of_a_closed_checkpointers(tmp_path, alone):
    """By its name, ranks would find the addresses that the closed one left in the store."""
    names = []
    for _ in range(2):
        with lowtide.Checkpointer(tmp_path, alone) as checkpoints:
            names.append(checkpoints._group.group_name)
        names.append(dist.new_group([0], use_local_synchronization=True).group_name)
    of_checkpoints, others = names[::2], names[1::2]
    assert len(set(of_checkpoints)) == 1  # the same group
    assert len({*names}) == 1 + len(others)
