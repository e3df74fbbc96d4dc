"""Which ways to need less memory to combine: the ranking, what is run, what stays as it was."""

import copy
import itertools
import json
import math

import lowtide
import pytest
import torch
from lowtide.__main__ import main
from lowtide.pytorch.tune import trial
from lowtide.pytorch.tune.combination import Combination
from lowtide.pytorch.tune.combinations import Allowed, combinations
from sweep import sweep

WIDTH, ROWS = 64, 252  # 1, 2 or 4 micro-batches

ALL_WAYS = ("micro_batches", "slices", "fused_update")
#: A few combinations, each planned briefly.
QUICK = {"time_limit": 0.2, "verbose": False, "precisions": (), "ways": ("micro_batches",)}


class Net(torch.nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.layers = torch.nn.Sequential(*[
            torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(),
                                torch.nn.Dropout(0.1))
            for _ in range(layers)])
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.layers(x).square().mean()


def make_step(rows):
    torch.manual_seed(0)
    return Net(), torch.randn(rows, WIDTH)


def tuned(budget, model=None, goal="fastest", **settings):
    made, inputs = make_step(ROWS)
    return lowtide.tune(model or made, inputs, budget, goal=goal, **{**QUICK, **settings})


@pytest.fixture(name="whole", scope="module")
def keep_all_peak():
    """Bytes of the step when every value is kept."""
    model, inputs = make_step(ROWS)
    return lowtide.wrap(model, inputs, optimizer="adam").memory.planned_peak


@pytest.fixture(name="as_predicted")
def runs_take_what_is_predicted(costs_of_a_data_sheet, monkeypatch):
    """So that no time of this machine decides."""
    def measured(model, inputs, budget, combination, settings, updates, module=None):
        found = trial.planned(model, inputs, budget, combination, settings).found
        return trial.Measured(found.seconds, found.peak, budget)

    monkeypatch.setattr("lowtide.pytorch.tune.searches.measured", measured)


def test_where_all_fits_nothing_is_changed(whole, as_predicted):
    found = tuned(2 * whole)
    assert found.best.combination == Combination()
    assert found.best.keeps_all and len(found.ranked) == 1
    assert found.settings == {"budget": 2 * whole}
    assert "keeps every value" in str(found) and "the same bits" in str(found)


@pytest.mark.parametrize("share, ways", sweep(
    itertools.product([0.9, 0.7, 0.6], [("micro_batches",), ALL_WAYS]), [(0.7, ALL_WAYS[:1])]))
def test_the_first_is_the_best_of_all_combinations(share, ways, whole, as_predicted):
    model, inputs = make_step(ROWS)
    optimizer = torch.optim.AdamW(model.parameters())
    budget = int(share * whole)
    found = lowtide.tune(model, inputs, budget, optimizer=optimizer, **{**QUICK, "ways": ways})
    settings = {"optimizer": optimizer, "time_limit": QUICK["time_limit"], "verbose": False}
    seconds = [one.found.seconds
               for combination in combinations(Allowed((), ways), ROWS, can_fuse=True)
               if (one := trial.planned(model, inputs, budget, combination, settings)).found.fits]
    assert found.best.seconds <= 1.02 * min(seconds)
    assert all(one.peak <= budget for one in found.ranked if one.fits)


@pytest.mark.parametrize("updates", [False, True])
def test_a_run_leaves_model_and_optimizer_as_they_were(updates, whole):
    model, inputs = make_step(ROWS)
    optimizer = torch.optim.AdamW(model.parameters())
    before = copy.deepcopy(model.state_dict())
    steps = []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    settings = {"optimizer": optimizer, "time_limit": QUICK["time_limit"], "verbose": False}
    trial.measured(model, inputs, whole, Combination(), settings, updates=updates, steps=1)
    assert len(steps) == (2 if updates else 0)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not optimizer.state_dict()["state"]


def test_what_is_compared_updates_alike(whole, monkeypatch):
    run = []

    def measured(model, inputs, budget, combination, settings, updates, module=None):
        run.append((combination.fused_update, updates))
        return trial.Measured(0.1, budget, budget)

    monkeypatch.setattr("lowtide.pytorch.tune.searches.measured", measured)
    model, inputs = make_step(ROWS)
    lowtide.tune(model, inputs, int(0.8 * whole), **QUICK | {
        "ways": ("fused_update",), "optimizer": torch.optim.AdamW(model.parameters())})
    assert {updates for _, updates in run} == {any(fused for fused, _ in run)}
    assert (True, True) in run


def test_what_changes_least_comes_first_for_the_goal_fits(whole, as_predicted):
    found = tuned(int(0.8 * whole), goal="fits")
    changes = [one.combination.changes for one in found.ranked if one.fits]
    assert changes == sorted(changes) and changes[0] == 0


def test_without_room_for_the_model_none_fits(as_predicted):
    found = tuned("20KiB", ways=())
    assert found.best is None and found.code == ""
    assert "No combination fits" in str(found)
    with pytest.raises(lowtide.InfeasibleError, match="no combination fits"):
        _ = found.settings


@pytest.mark.sweep
def test_the_largest_batch_is_that_of_max_batch(whole):
    found = lowtide.tune(make_step, None, whole, goal="batch", **{**QUICK, "ways": ()})
    alone = lowtide.max_batch(make_step, whole, time_limit=0.2, verbose=False)
    assert found.best.size == alone.size
    assert found.best.measured.peak <= whole


@pytest.mark.parametrize("fused", [False, True])
def test_everything_is_as_before(whole, fused):
    model, inputs = make_step(ROWS)
    optimizer = torch.optim.AdamW(model.parameters())
    model(inputs).backward()
    optimizer.step()
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    drawn = torch.get_rng_state()
    ways = ("fused_update",) if fused else ("slices",)
    found = lowtide.tune(model, inputs, int(0.75 * whole), optimizer=optimizer,
                         **{**QUICK, "ways": ways})
    assert sum(one.measured is not None for one in found.ranked) == 2
    assert torch.equal(torch.get_rng_state(), drawn)
    torch.testing.assert_close((model.state_dict(), optimizer.state_dict()), before, rtol=0, atol=0)
    for parameter, gradient in zip(model.parameters(), gradients):
        assert torch.equal(parameter.grad, gradient)


@pytest.mark.sweep
def test_the_code_that_is_shown_runs(whole, as_predicted, monkeypatch):
    model, inputs = make_step(ROWS)
    optimizer = torch.optim.AdamW(model.parameters())
    found = tuned(int(0.7 * whole), model=model, optimizer=optimizer,
                  ways=ALL_WAYS)
    monkeypatch.undo()  # what runs is measured
    for one in found.ranked:
        if not one.fits:
            continue
        rows = ROWS // one.combination.micro_batches
        names = {"lowtide": lowtide, "model": model, "inputs": inputs[:rows],
                 "optimizer": optimizer}
        exec(one.combination.code(found.budget), names)
        names["model"](inputs[:rows]).backward()
        optimizer.step()
        optimizer.zero_grad()


def test_ctrl_c_ends_with_those_that_were_tried(whole, as_predicted, monkeypatch):
    tried = []

    def interrupted(*arguments):
        if len(tried) == 2:
            raise KeyboardInterrupt
        tried.append(arguments[3])
        return trial.planned(*arguments)

    monkeypatch.setattr("lowtide.pytorch.tune.searches.planned", interrupted)
    found = tuned(int(0.7 * whole))
    assert {one.combination for one in found.ranked} == set(tried)


def test_one_that_exceeds_the_budget_when_run_is_not_the_first(whole, monkeypatch):
    def too_much(model, inputs, budget, combination, settings, updates, module=None):
        is_plain = combination == Combination()
        return trial.Measured(1.0, 2 * budget if is_plain else budget, budget)

    monkeypatch.setattr("lowtide.pytorch.tune.searches.measured", too_much)
    found = tuned(int(0.7 * whole))
    assert found.best.combination != Combination()
    last = next(one for one in found.ranked if one.combination == Combination())
    assert not last.fits and "a step took" in last.reason


def test_slower_than_asked_comes_behind(whole, as_predicted):
    found = tuned(int(0.8 * whole), step_seconds=1e-9)
    assert found.best is not None  # all are too slow, and ranked all the same


def test_the_document_for_programs(whole, as_predicted):
    document = json.loads(tuned(int(0.8 * whole)).to_json())
    assert document["goal"] == "fastest" and document["ranked"][0]["fits"]
    assert document["ranked"][0]["measured"]["peak"] <= document["budget_bytes"]


def test_a_budget_is_what_is_free_where_none_is_given(as_predicted):
    found = tuned(None)
    assert 0 < found.budget and found.best.combination == Combination()


@pytest.mark.parametrize("settings, message", [
    ({"goal": "best"}, "no goal 'best': choose from fits, fastest"),
    ({"budget": "60%"}, "wants a budget in bytes"),
    ({"ways": ("magic",)}, "no way 'magic'"),
    ({"precisions": ("int4",)}, "precision must be"),
    ({"stashes": ("int4",)}, "stash must be"),
    ({"step_seconds": -1}, "step_seconds must be seconds"),
    ({"step_seconds": math.nan}, "step_seconds must be seconds"),
    ({"time_limit": 0}, "time_limit must be seconds of planning"),
    ({"precisions": "bf16"}, "precisions must be a tuple of names"),
    ({"ways": 3}, "ways must be a tuple of names"),
])
def test_what_is_wrong_is_said_before_work_begins(settings, message):
    with pytest.raises(lowtide.InputError, match=message):
        tuned(**{"budget": "1GiB", **settings})


def test_a_precision_that_is_named_twice_is_tried_once():
    found = tuned("1GiB", precisions=("bf16", "bf16"), ways=(), goal="fits")
    labels = [one.combination.label for one in found.ranked]
    assert sorted(labels) == ["as it is", "bf16"]


def test_a_model_that_raises_is_told_what_to_do():
    class Raises(Net):
        def forward(self, x):
            raise ValueError("a fault of the user's")

    with pytest.raises(lowtide.InputError, match="Raises has no plan: .*call the model with"):
        tuned("1GiB", Raises())


def test_goals_of_a_size_want_a_function():
    model, inputs = make_step(4)
    with pytest.raises(lowtide.InputError, match="a function of a size"):
        lowtide.tune(model, inputs, "1GiB", goal="batch")
    with pytest.raises(lowtide.InputError, match="a module and example_inputs"):
        lowtide.tune(make_step, None, "1GiB")


DEEPSPEED = {
    "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 4, "steps_per_print": 10,
    "gradient_clipping": 1.0, "bf16": {"enabled": True}, "fp16": {"enabled": False},
    "zero_optimization": {"stage": 2, "contiguous_gradients": True, "overlap_comm": True,
                          "offload_optimizer": {"device": "cpu", "pin_memory": True}},
    "activation_checkpointing": {
        "partition_activations": True, "cpu_checkpointing": True, "number_checkpoints": 4,
        "contiguous_memory_optimization": False, "synchronize_checkpoint_boundary": False,
        "profile": True},
}


def test_each_key_of_deepspeed_is_read_or_said_to_mean_nothing(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(DEEPSPEED))
    for given in (DEEPSPEED, path, str(path)):
        found = lowtide.from_deepspeed(given)
        assert found.allowed.precisions == ("bf16",)
        assert found.allowed.ways == ("micro_batches",)
        assert found.allowed.offload.optimizer_state is True
        assert not found.allowed.offload.parameters
        named = {key.split(".")[0] for key in found.notes}
        assert named == set(DEEPSPEED)
        assert all(found.notes.values())
        for key in DEEPSPEED["activation_checkpointing"]:
            assert f"activation_checkpointing.{key}" in str(found)


def test_what_is_null_in_a_configuration_is_off():
    found = lowtide.from_deepspeed({
        "zero_optimization": {"stage": "auto", "offload_optimizer": None, "offload_param": None},
        "activation_checkpointing": {"number_checkpoints": None},
        "torch_autocast": {"enabled": True, "dtype": "bfloat16"}})
    assert found.allowed.offload is None and found.allowed.precisions == ("bf16",)


@pytest.mark.parametrize("given, precisions", [
    ({"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}, {"bf16", "fp16"}),
    ({"bf16": {"enabled": True}, "fp16": {"enabled": "auto"}}, {"bf16"}),
    ({"bf16": {"enabled": False}, "fp16": {"enabled": "auto"}}, {"fp16"}),
    ({"bf16": {"enabled": True}, "torch_autocast": {"enabled": True, "dtype": "bfloat16"}},
     {"bf16"}),
    ({"amp": {"enabled": True, "opt_level": "O1"}}, {"fp16"}),
    ({"amp": {"enabled": False}}, set()),
])
def test_what_the_launcher_is_to_decide_is_tried_where_nothing_else_is_on(given, precisions):
    allowed = lowtide.from_deepspeed(given).allowed.precisions
    assert set(allowed) == precisions and len(allowed) == len(precisions)


@pytest.mark.parametrize("given, key, meant", [
    ({"zero_optimisation": {"stage": 3}}, "zero_optimisation", "zero_optimization"),
    ({"steps_per_prnt": 10}, "steps_per_prnt", "steps_per_print"),
    ({"fp16": {"enabld": True}}, "fp16.enabld", "enabled"),
    ({"torch_autocast": {"enabled": True, "dtpe": "float16"}}, "torch_autocast.dtpe", "dtype"),
    ({"zero_optimization": {"stgae": 3}}, "zero_optimization.stgae", "stage"),
    ({"zero_optimization": {"offload_optimizer": {"devise": "cpu"}}},
     "zero_optimization.offload_optimizer.devise", "device"),
])
def test_a_misspelled_key_is_suspected(given, key, meant):
    note = lowtide.from_deepspeed(given).notes[key]
    assert note.startswith("not known") and f"did you mean '{meant}'?" in note


def test_a_file_may_begin_with_a_mark_of_its_encoding(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text('\ufeff{"bf16": {"enabled": true}}', encoding="utf-8")
    assert lowtide.from_deepspeed(path).allowed.precisions == ("bf16",)


def test_what_the_launcher_decides_may_stand_for_numbers():
    auto = {"train_batch_size": "auto", "gradient_clipping": "auto", "optimizer": {"params": {}},
            "gradient_accumulation_steps": "auto", "fp16": {"enabled": "auto", "loss_scale": 0}}
    assert lowtide.from_deepspeed(auto).allowed.ways == ("micro_batches",)


def test_a_key_that_zero_does_not_have_is_not_said_to_be_for_ranks():
    notes = lowtide.from_deepspeed({"zero_optimization": {"stgae": 3, "overlap_comm": True}}).notes
    assert "not known" in notes["zero_optimization.stgae"]
    assert "between ranks" in notes["zero_optimization.overlap_comm"]


def test_older_keys_of_zero_are_read():
    for parameters in ("cpu_offload_param", "cpu_offload_params"):
        older = {"stage": 2, "cpu_offload": True, parameters: True}
        offload = lowtide.from_deepspeed({"zero_optimization": older}).allowed.offload
        assert offload.optimizer_state and offload.parameters
    assert lowtide.from_deepspeed({"zero_optimization": True}).allowed.offload is None


def test_the_settings_of_micro_batches_are_for_one_of_them(whole, as_predicted):
    model, inputs = make_step(ROWS)
    found = tuned(int(0.55 * whole), model=model)
    assert found.micro_batches > 1
    rows = ROWS // found.micro_batches
    wrapped = lowtide.wrap(model, inputs[:rows], optimizer="adam", **found.settings)
    assert wrapped.memory.planned_peak <= found.budget


def test_tune_allows_what_deepspeed_says(whole, as_predicted, tmp_path):
    nvme = {"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme",
                                                               "nvme_path": str(tmp_path)}}}
    allowed = lowtide.from_deepspeed(nvme).allowed
    assert allowed.offload.parameters and allowed.offload.folder == str(tmp_path)
    found = tuned(int(0.7 * whole), deepspeed={"gradient_accumulation_steps": 2})
    assert all(one.combination.slices == 1 for one in found.ranked)
    assert any(one.combination.micro_batches > 1 for one in found.ranked)
    assert "gradient_accumulation_steps: micro-batches are tried" in str(found)


@pytest.mark.parametrize("given, message", [
    ("/no/such/file.json", "cannot be read"),
    ({"bf16": True}, "bf16 of a configuration of DeepSpeed is an object"),
    ({"fp16": {"enabled": "yes"}}, "fp16.enabled is true, false"),
    ({"zero_optimization": {"offload_param": {"device": "tape"}}}, "offload_param.device is"),
    ({"zero_optimization": {"stage": 9}}, "stage is 0, 1, 2, 3"),
    ({"zero_optimization": {"offload_param": {"device": "nvme", "nvme_path": "/no/such"}}},
     "zero_optimization.offload_param.nvme_path: .*/no/such"),
    ({"gradient_accumulation_steps": "4"}, "is a whole number, at least 1, or"),
    ({"gradient_accumulation_steps": 0}, "at least 1, .*not 0"),
    ({"train_batch_size": -4}, "train_batch_size .*at least 1"),
    ({"gradient_clipping": "x"}, "gradient_clipping .*a number, 0 or more"),
    ({"fp16": {"enabled": True, "loss_scale": "x"}}, "fp16.loss_scale .*a number"),
    ({"fp16": {"enabled": True, "initial_scale_power": -3}}, "initial_scale_power .*not -3"),
    ({"optimizer": 3}, "optimizer .*an object with keys"),
    ({"zero_optimization": {"offload_param": {"device": "nvme", "nvme_path": 3}}},
     "nvme_path: a folder is a text, not 3"),
    ({"activation_checkpointing": {"number_checkpoints": "auto"}}, "is a whole number or null"),
    ({"bf16": {"enabled": True}, "fp16": {"enabled": True}}, "one of bf16 and fp16"),
    ({"activation_checkpointing": {"cpu_checkpointing": "false"}},
     "cpu_checkpointing of a configuration of DeepSpeed is true or false, not 'false'"),
    ({"zero_optimization": {"cpu_offload": "no"}}, "cpu_offload .* is true or false"),
    (0, "a dict or the path of a JSON file, not 0"),
])
def test_a_broken_configuration_is_refused(given, message):
    with pytest.raises(lowtide.InputError, match=message):
        lowtide.from_deepspeed(given)


def write_maker(folder):
    (folder / "maker.py").write_text(
        "import torch\n"
        "def make(rows=64):\n"
        "    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU())\n"
        "    return model, (torch.randn(rows, 32),)\n")


@pytest.mark.parametrize("given, goal", [(["--goal", "fits"], "fits"), ([], "fastest")])
def test_the_command_prints_one_document(given, goal, tmp_path, monkeypatch, capsys):
    write_maker(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    code = main(["tune", "maker:make", "--budget", "1GiB", "--precisions", "none", "--json",
                 "--time-limit", "0.2", *given])
    document = json.loads(capsys.readouterr().out)
    assert code == 0 and document["goal"] == goal and document["ranked"][0]["fits"]


@pytest.mark.parametrize("option", ["--quiet", "-q"])
def test_the_quiet_command_says_the_result_alone(option, tmp_path, monkeypatch, capsys):
    write_maker(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    command = ["tune", "maker:make", "--budget", "1GiB", "--precisions", "none", "--time-limit",
               "0.2"]
    assert main(command) == 0
    assert capsys.readouterr().err
    assert main([*command, option]) == 0
    said = capsys.readouterr()
    assert "keeps every value" in said.out and not said.err


def test_the_command_says_that_nothing_fits(tmp_path, monkeypatch, capsys):
    write_maker(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    code = main(["tune", "maker:make", "--budget", "1KiB", "--precisions", "none",
                 "--time-limit", "0.2"])
    said = capsys.readouterr()
    assert code == 3 and "No combination fits" in said.out and "larger budget" in said.err
