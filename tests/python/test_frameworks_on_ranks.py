"""Frameworks on two ranks within a budget: the numbers of their own DistributedDataParallel."""

import contextlib
import itertools
import math
import pathlib
import re
import tempfile
import unittest.mock

import lowtide
import pytest
import torch
from framework_cases import (
    accelerator_of,
    classifier,
    environment,
    figures,
    fit,
    logged,
    loop,
    prepared,
    steps_of,
    trainer,
)
from on_ranks import Ranks
from shards_cases import batches, distributed, parameters_of, trained, wrapped
from sweep import sweep
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")

PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "how-to"
FAST = {"cache": False, "time_limit": 0.3, "verbose": False}


@pytest.fixture(scope="module")
def two():
    """Processes of their own, as frameworks set up the whole of a process."""
    ranks = Ranks(2)
    yield ranks
    ranks.close()


# ---- DistributedDataParallel

def ddp_given(rank, ranks, case, sharding):
    model, optimizer = distributed(case, "ddp", ranks)
    planned = lowtide.wrap(model, batches(case, rank)[0], optimizer=optimizer, sharding=sharding,
                           **FAST)
    losses = trained(planned, optimizer, batches(case, rank))
    with torch.no_grad():
        evaluated = planned.eval()(*batches(case, rank)[0]).item()
    state = planned.state_dict()
    assert all(type(value) is torch.Tensor for value in state.values())
    return losses, evaluated, state, isinstance(planned, DistributedDataParallel)


def ddp_alone(rank, ranks, case):
    model, optimizer = distributed(case, "ddp", ranks)
    losses = trained(model, optimizer, batches(case, rank))
    with torch.no_grad():
        return losses, model.eval()(*batches(case, rank)[0]).item(), model.state_dict()


@pytest.mark.parametrize("case, sharding", sweep(
    itertools.product(["gpt", "layers", "convolutions"], ["none", "full"]),
    usual=[("layers", "full"), ("convolutions", "none")]))
def test_what_ddp_does_the_plan_does(two, case, sharding):
    for (losses, evaluated, state, is_ddp), (wanted, other, expected) in zip(
            two.run(ddp_given, 2, case, sharding), two.run(ddp_alone, 2, case)):
        assert is_ddp
        assert losses == pytest.approx(wanted, rel=1e-5)
        assert evaluated == pytest.approx(other, rel=1e-4)
        assert state.keys() == expected.keys()
        for name, value in state.items():
            torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-5)


def refused_around_ddp(rank, ranks):
    messages = []

    def refuse(run):
        with pytest.raises(lowtide.InputError) as error:
            run()
        messages.append(str(error.value))

    model, _ = wrapped("layers", rank, ranks, sharding="none")
    refuse(lambda: DistributedDataParallel(model))
    with_hook, _ = distributed("layers", "ddp", ranks)
    with_hook.register_comm_hook(None, lambda state, bucket: None)
    refuse(lambda: lowtide.wrap(with_hook, sharding="none"))
    plain, optimizer = distributed("layers", "ddp", ranks)
    refuse(lambda: lowtide.wrap(plain, mesh=3, sharding="none"))
    refuse(lambda: lowtide.wrap(plain, optimizer=optimizer, fused_update=True))
    with pytest.raises(lowtide.InfeasibleError):
        lowtide.wrap(plain, batches("layers", rank)[0], 1000, optimizer=optimizer,
                     sharding="full", **FAST)
    return messages, trained(plain, optimizer, batches("layers", rank))


def test_what_cannot_be_is_said_and_ddp_goes_on(two):
    expected = two.run(ddp_alone, 2, "layers")
    for (messages, losses), (wanted, *_) in zip(two.run(refused_around_ddp, 2), expected):
        first, hook, mesh, update = messages
        assert "second time" in first and "callback" in first
        assert "communication hook" in hook and "Leave mesh" in hook
        assert "DeviceMesh" in mesh and "fused_update" in update
        assert losses == wanted


# ---- Accelerate

def accelerated(rank, ranks, sharding, share, accumulate):
    accelerator, model, optimizer = prepared(rank, ranks)
    model = lowtide.wrap(model, batches("gpt", rank)[0], share, optimizer=optimizer,
                         sharding=sharding, **FAST)
    found = loop(accelerator, model, optimizer, steps_of("gpt", rank), accumulate)
    return found, figures(model)


def accelerated_plainly(rank, ranks, accumulate):
    return loop(*prepared(rank, ranks), steps_of("gpt", rank), accumulate)


@pytest.mark.parametrize("sharding, accumulate, share", sweep(
    itertools.product(["none", "gradients", "full"], [1, 2], ["85%", None]),
    usual=[("full", 1, "85%"), ("none", 2, None)]))
def test_a_loop_with_accelerate(two, sharding, accumulate, share):
    """A share has no room for gradients that are kept between two passes."""
    pytest.importorskip("accelerate")
    for (found, (budget, planned, peak)), wanted in zip(
            two.run(accelerated, 2, sharding, share, accumulate),
            two.run(accelerated_plainly, 2, accumulate)):
        assert found == pytest.approx(wanted, rel=1e-4)
        assert 0 < planned
        if share is not None and accumulate == 1:
            assert planned <= budget and 0 < peak <= budget


def saved_and_loaded(rank, ranks, folder, sharding, is_planned):
    """The losses behind a state that Accelerate saved and loaded."""
    steps = batches("gpt", rank, 6)

    def begun():
        accelerator, model, optimizer = prepared(rank, ranks)
        if is_planned:
            model = lowtide.wrap(model, steps[0], optimizer=optimizer, sharding=sharding, **FAST)
        return accelerator, model, optimizer

    one = begun()
    loop(*one, steps[:3])
    one[0].save_state(folder)
    expected = loop(*one, steps[3:])
    other = begun()
    other[0].load_state(folder)
    return expected, loop(*other, steps[3:])


@pytest.mark.parametrize("sharding", sweep(["none", "full"], usual=["full"]))
def test_accelerate_saves_and_loads(two, sharding, tmp_path):
    pytest.importorskip("accelerate")
    plain = two.run(saved_and_loaded, 2, str(tmp_path / "plain"), sharding, False)
    for (expected, found), (wanted, _) in zip(
            two.run(saved_and_loaded, 2, str(tmp_path / "planned"), sharding, True), plain):
        assert found == expected
        assert expected == pytest.approx(wanted, rel=1e-4)


def accelerated_behind(rank, ranks):
    """A model that is planned on a mesh before it comes to Accelerate."""
    model, optimizer = wrapped("gpt", rank, ranks, sharding="full")
    accelerator = accelerator_of(rank, ranks)
    model, optimizer = accelerator.prepare(model, optimizer)
    return loop(accelerator, model, optimizer, steps_of("gpt", rank))


def test_accelerate_takes_a_planned_model_as_it_is(two):
    pytest.importorskip("accelerate")
    for found, wanted in zip(two.run(accelerated_behind, 2), two.run(accelerated_plainly, 2, 1)):
        assert found == pytest.approx(wanted, rel=1e-4)


# ---- The Trainer

def trainer_on_ranks(rank, ranks, folder, budget, settings):
    from lowtide.pytorch.integrations.huggingface import MemoryBudget

    found = []

    class Noting(MemoryBudget):
        def on_log(self, *given, **named):
            super().on_log(*given, **named)
            if self._in_place is not None:
                found.append(figures(self._in_place))

    callbacks = [] if budget is None else [Noting(budget, **FAST, **settings)]
    one = trainer(rank, ranks, folder, callbacks, gradient_accumulation_steps=1)
    one.train()
    assert all(type(value) is torch.nn.Parameter for value in one.model.parameters())
    return (logged(one, "loss", "eval_loss", "grad_norm"), one.evaluate()["eval_loss"],
            parameters_of(one.model), found)


@pytest.mark.parametrize("settings", sweep(
    [{}, {"sharding": "none"}, {"sharding": "gradients"}, {"sharding": "full"}],
    usual=[{}]))
def test_the_trainer_on_two_ranks(two, settings, tmp_path):
    """Its own DDP gives way; clipping, evaluation and a smaller last batch."""
    pytest.importorskip("transformers")
    plain = two.run(trainer_on_ranks, 2, str(tmp_path), None, {})
    for (losses, evaluated, parameters, found), (wanted, other, expected, _) in zip(
            two.run(trainer_on_ranks, 2, str(tmp_path), "85%", settings), plain):
        assert losses == pytest.approx(wanted, rel=1e-4)
        assert evaluated == pytest.approx(other, rel=1e-4)
        for name, parameter in parameters.items():
            torch.testing.assert_close(parameter, expected[name], rtol=1e-3, atol=1e-4)
        # The first step measures, and the Trainer's own figures take a little beside the others.
        assert all(0 < planned <= budget and 0 < peak <= 1.01 * budget
                   for budget, planned, peak in found[1:])


def trainer_resumed(rank, ranks, folder, sharding):
    """Losses of a training with micro-batches, and of one that goes on from its checkpoint."""
    from lowtide.pytorch.integrations.huggingface import MemoryBudget

    found = []
    for resume in (None, f"{folder}/checkpoint-3"):
        callbacks = [] if sharding is None else [
            MemoryBudget(None, sharding=sharding, **FAST)]
        one = trainer(rank, ranks, folder, callbacks, save_strategy="steps", save_steps=3,
                      load_best_model_at_end=True)
        one.train(resume_from_checkpoint=resume)
        found.append((logged(one, "loss"), parameters_of(one.model)))
    return found


@pytest.mark.parametrize("sharding", sweep(["none", "full"], usual=["full"]))
def test_the_trainer_resumes_on_two_ranks(two, sharding, tmp_path):
    pytest.importorskip("transformers")
    plain = two.run(trainer_resumed, 2, str(tmp_path / "plain"), None)
    for ((losses, best), (others, other_best)), ((wanted, expected), _) in zip(
            two.run(trainer_resumed, 2, str(tmp_path / "planned"), sharding), plain):
        assert losses[-3:] == others[-3:]
        assert losses == pytest.approx(wanted, rel=1e-4)
        for name, parameter in best.items():
            assert torch.equal(parameter, other_best[name])
            torch.testing.assert_close(parameter, expected[name], rtol=1e-3, atol=1e-4)


# ---- The pages

def of_page(rank, ranks, name, heading):
    """Runs the program of a page, and that of its part about ranks."""
    text = (PAGES / name).read_text()
    first, later = text.split(heading)
    blocks = re.findall(r"```python\n(.*?)```", later, re.DOTALL)
    program = blocks[0]
    if name != "train-on-many-ranks.md":
        whole = re.findall(r"```python\n(.*?)```", first, re.DOTALL)[0]
        program = whole if name == "hugging-face.md" else (
            whole[:whole.index("trainer = ")] + program)
    torch.manual_seed(0)
    values = {"__name__": "page", "print": lambda *_: None}
    with (environment(rank, ranks), tempfile.TemporaryDirectory() as folder,
          contextlib.chdir(folder), unittest.mock.patch.dict(lowtide.wrap.__kwdefaults__,
                                                             time_limit=0.3)):
        exec(compile(program, name, "exec"), values)
    return values["loss"].item() if "loss" in values else 0.0


PROGRAMS = [("hugging-face.md", "## Several ranks"), ("lightning.md", "## Several ranks"),
            ("train-on-many-ranks.md", "## With Accelerate")]


@pytest.mark.parametrize("name, heading", sweep(PROGRAMS, usual=PROGRAMS[1:]))
def test_the_code_of_the_pages_runs_on_two_ranks(two, name, heading):
    for package in ("transformers", "accelerate", "lightning.pytorch"):
        pytest.importorskip(package)
    assert all(math.isfinite(loss) for loss in two.run(of_page, 2, name, heading))


# ---- Lightning

def lightning_on_ranks(rank, ranks, folder, settings, outside):
    from lowtide.pytorch.integrations.lightning import MemoryBudget

    model = classifier(outside)
    callbacks = [] if settings is None else [MemoryBudget("90%", module="net", **FAST, **settings)]
    fitted = fit(rank, ranks, folder, model, callbacks, accumulate_grad_batches=2)
    return (model.losses, model.validated, model.state_dict(),
            {name: float(value) for name, value in fitted.callback_metrics.items()})


@pytest.mark.parametrize("settings, outside", sweep(
    [({}, False), ({"sharding": "none"}, False), ({"sharding": "full"}, False), ({}, True)],
    usual=[({"sharding": "full"}, False), ({}, True)]))
def test_lightning_on_two_ranks(two, settings, outside, tmp_path):
    """A module that has not all parameters is planned on each rank, and DDP goes on."""
    pytest.importorskip("lightning.pytorch")
    plain = two.run(lightning_on_ranks, 2, str(tmp_path), None, outside)
    for (losses, validated, state, metrics), (wanted, others, expected, _) in zip(
            two.run(lightning_on_ranks, 2, str(tmp_path), settings, outside), plain):
        assert losses == pytest.approx(wanted, rel=1e-4)
        assert validated == pytest.approx(others, rel=1e-3)
        for name, value in state.items():
            torch.testing.assert_close(value, expected[name], rtol=1e-3, atol=1e-4)
        assert metrics["lowtide_peak_bytes"] > 0


def lightning_refused(rank, ranks, folder):
    from lowtide.pytorch.integrations.lightning import MemoryBudget

    with pytest.raises(lowtide.InputError) as error:
        fit(rank, ranks, folder, classifier(True), [MemoryBudget(None, "net", sharding="full")])
    return str(error.value)


def test_shards_of_a_part_are_refused(two, tmp_path):
    pytest.importorskip("lightning.pytorch")
    for message in two.run(lightning_refused, 2, str(tmp_path)):
        assert "last.weight" in message and "Leave mesh and sharding out" in message


def lightning_resumed(rank, ranks, folder, is_planned):
    from lowtide.pytorch.integrations.lightning import MemoryBudget

    found = []
    for epochs, resume in ((2, None), (3, f"{folder}/two.ckpt")):
        callbacks = [MemoryBudget(None, "net", sharding="full", **FAST)] if is_planned else []
        model = classifier()
        fit(rank, ranks, folder, model, callbacks, epochs, resume, f"{folder}/two.ckpt")
        found.append(model.losses)
    return found


def test_lightning_resumes_on_two_ranks(two, tmp_path):
    pytest.importorskip("lightning.pytorch")
    plain = two.run(lightning_resumed, 2, str(tmp_path / "plain"), False)
    for found, wanted in zip(two.run(lightning_resumed, 2, str(tmp_path / "planned"), True), plain):
        for losses, others in zip(found, wanted):
            assert losses == pytest.approx(others, rel=1e-4)
