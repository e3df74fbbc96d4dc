"""Every kind of bad input ends with one clear line and its exit code."""

import json
import os
import resource
import shutil
import subprocess

import pytest
from conftest import BINARY, TINY

BAD_ARGUMENTS = [
    (["trian"], ["unknown command", '"train"']),
    (["train", "--model", "resnet5"], ["unknown model", '"resnet50"']),
    (["train"], ["which model"]),
    (["train", *TINY, "--bugdet", "60%"], ["unknown option", '"--budget"']),
    (["train", *TINY, "--bugdet=60%"], ["unknown option", '"--budget"']),
    (["train", *TINY, "surplus"], ["unexpected argument", "surplus"]),
    (["train", *TINY, "--heads", "2"], ["heads"]),
    (["train", *TINY, "--batch", "0"], ["--batch"]),
    (["train", *TINY, "--batch", "many"], ["--batch"]),
    (["train", *TINY, "--batch"], ["--batch"]),
    (["train", *TINY, "--dropout", "-0.5"], ["--dropout"]),
    (["train", *TINY, "--steps", "-1"], ["--steps"]),
    (["train", *TINY, "--steps", "1e3"], ['"1e3" is no whole number']),
    (["tune", *TINY, "--budget", "1GB", "--disk", "none"], ["none", "choose a folder"]),
    (["max-batch", "--model", "mlp", "--budget", "1GB", "--multiple", "7", "--limit", "6"],
     ["no multiple of 7", "--multiple"]),
    (["train", *TINY, "--steps", "0"], ["--steps", "1"]),
    (["train", *TINY, "--budget", "lots"], ["lots", "GiB"]),
    (["train", *TINY, "--reserve", "10%"], ["--reserve"]),
    (["train", *TINY, "--memory", "pol"], ['"pool"']),
    (["train", *TINY, "--overrun", "go"], ["--overrun"]),
    (["train", *TINY, "--optimizer", "sgdd"], ["sgdd"]),
    (["train", *TINY, "--momentum", "7"], ["momentum"]),
    (["train", *TINY, "--precision", "fp15"], ['f32, bf16 or fp16, not "fp15"', '"fp16"']),
    (["graph", *TINY[:-2], "--precision", "fp8", "-o", "x.json"], ['not "fp8"']),
    (["train", *TINY, "--loss-scale", "8"], ["--precision fp16"]),
    (["train", *TINY, "--state-type", "fp16"], ["the optimizer's state is f32 or bf16"]),
    (["graph", *TINY[:-2], "--gradient-type", "bf15", "-o", "x.json"],
     ["the type of gradients", '"bf16"']),
    (["train", *TINY, "--precision", "fp16", "--loss-scale", "0"], ["loss scale"]),
    (["train", *TINY, "--precision", "fp16", "--loss-scale", "nan"], ["loss scale"]),
    (["train", *TINY, "--data", "mnits:x"], ['"mnist"']),
    (["train", *TINY, "--data", "mnist:none"], ["none/train-images-idx3-ubyte"]),
    (["train", *TINY, "--data", "cifar10:none"], ["data_batch_1.bin"]),
    (["train", *TINY, "--text", "none.txt"], ["learns from images"]),
    (["train", *TINY, "--overrun", "reserve"], ["--reserve"]),
    (["train", *TINY, "--reserve", "1MB"], ["--overrun reserve"]),
    (["train", *TINY, "--momentum", "0.9", "--optimizer", "adam"],
     ['no option "momentum"', "beta1"]),
    (["train", *TINY, "--beta1", "0.9"], ['no option "beta1"', "momentum"]),
    (["train", *TINY, "--profile", "none/p.json"], ["no folder none"]),
    (["train", *TINY, "--seed", "-1"], ["--seed", "-1"]),
    (["train", *TINY, "--seed", "18446744073709551616"], ["--seed"]),
    (["train", *TINY, "--save-every", "2"], ["--save"]),
    (["train", *TINY, "--trace", "none/x"], ["no folder none"]),
    (["train", *TINY, "--plan-out", "none/x"], ["no folder none"]),
    (["train", *TINY, "--graph-out", "/"], ["directory"]),
    (["train", *TINY, "--dump-gradients", "none/x"], ["no folder none"]),
    (["train", "--model", "mlp", "--layers", "1000000", "--width", "64"], ["ops", "layers"]),
    (["train", *TINY, "--save", "none/run.ckpt"], ["none"]),
    (["train", *TINY, "--strategy", "chen-sqr", "--budget", "80%"], ['"chen-sqrt"']),
    (["train", *TINY, "--strategy", "segments", "-O", "segmets=3"], ['"segments"']),
    (["train", *TINY, "-O", "segments"], ["NAME=VALUE"]),
    (["train", *TINY, "-O", "="], ["NAME=VALUE"]),
    (["train", "--resume", "none.ckpt"], ["none.ckpt"]),
    (["plan", "none.json", "--budget", "60%"], ["none.json"]),
    (["plan", "--budget", "60%"], ["graph"]),
    (["graph", "--model", "unet"], ["--output"]),
    (["graph", "-o", "x.json"], ["which model"]),
    (["graph", *TINY[:-2], "-o", "none/x.json"], ["none/x.json"]),
    (["graph", *TINY[:-2], "--optimizer", "adamw", "--momentum", "0", "-o", "x.json"],
     ["momentum"]),
    (["profile", "none.json", "-o", "x.json"], ["none.json"]),
    (["verify", "none.json", "none.json"], ["none.json"]),
    (["compare", "none.json", "--budgets", "60%"], ["none.json"]),
]
USUAL_IN_JSON = 6  # the rest go the same way


@pytest.mark.parametrize("arguments, words", BAD_ARGUMENTS)
def test_bad_arguments(lowtide, arguments, words):
    assert lowtide(*arguments).fails(2, *words).out == ""


@pytest.mark.parametrize("arguments, words", [
    *BAD_ARGUMENTS[:USUAL_IN_JSON],
    *(pytest.param(*case, marks=pytest.mark.sweep) for case in BAD_ARGUMENTS[USUAL_IN_JSON:])])
def test_bad_arguments_in_json(lowtide, arguments, words):
    done = lowtide(*arguments, "--json").fails(2, *words)
    assert done.json["status"] == "bad_input"
    assert all(word in done.json["error"] for word in words)


def test_no_command(lowtide):
    lowtide().fails(2, "which command")


@pytest.mark.parametrize("content", [
    "", "{", "[]", "null", "not json", '{"format": "lowtide-graph"}',
    '{"format": "lowtide-graph", "version": 99, "tensors": [], "ops": []}', "[" * 100000, "\0\1\2"
])
def test_broken_graph_files(lowtide, content):
    (lowtide.folder / "g.json").write_text(content)
    for command in (["plan", "g.json", "--budget",
                     "60%"], ["compare", "g.json", "--budgets", "60%"],
                    ["verify", "g.json", "g.json"], ["profile", "g.json", "-o", "x.json"]):
        lowtide(*command).fails(2, "g.json")


def test_cut_graph_and_plan_files(lowtide, graph):
    lowtide("plan", graph, "--budget", "100%", "-o", "p.json")
    for whole in (graph, lowtide.folder / "p.json"):
        text = whole.read_text()
        cut = lowtide.folder / "cut.json"
        for part in (1, len(text) // 3, len(text) - 3):
            cut.write_text(text[:part])
            command = ["plan", cut, "--budget", "60%"] if whole == graph else ["verify", graph, cut]
            lowtide(*command).fails(2, "cut.json")


def test_a_broken_plan_is_named(lowtide, graph):
    lowtide("plan", graph, "--budget", "100%", "-o", "p.json")
    plan = json.loads((lowtide.folder / "p.json").read_text())
    del plan["actions"][0]
    plan.pop("offsets", None)
    (lowtide.folder / "p.json").write_text(json.dumps(plan))
    done = lowtide("verify", graph, "p.json", "--json").fails(2, "breaks the rule")
    assert done.json["valid"] is False and done.json["rule"]


@pytest.mark.parametrize("command", ["train", "plan"])
def test_impossible_budgets_name_the_smallest(lowtide, graph, command):
    arguments = ["train", *TINY] if command == "train" else ["plan", graph]
    arguments += ["--time-limit", 3]
    done = lowtide(*arguments, "--budget", "1000", "--json").fails(3, "smallest budget", "bytes")
    assert done.json["status"] == "infeasible"
    smallest = done.json["smallest_budget_bytes"]
    assert f"({smallest} bytes)" in done.json["error"]
    assert smallest >= done.json["floor_bytes"] > 1000
    again = lowtide(*arguments, "--budget", smallest, "--json")
    assert again.code == 0, again.err
    assert again.json["arena_bytes"] <= smallest


def test_a_share_without_its_sign_is_suspected(lowtide, graph):
    done = lowtide("plan", graph, "--budget", "45", "--time-limit", "1")
    assert done.code == 3
    assert "Did you mean 45%?" in done.err


@pytest.mark.parametrize("option", ["--save", "--trace", "--plan-out", "--graph-out"])
def test_an_output_without_a_name_is_refused(lowtide, option):
    lowtide("train", *TINY, option, "").fails(2, option, "empty value")


def test_a_folder_for_plans_that_cannot_be_made(lowtide, graph):
    lowtide("frontier", graph, "--points", 2, "--plans", "/dev/full").fails(
        2, "cannot write plans to /dev/full")


def test_short_text(lowtide):
    (lowtide.folder / "t.txt").write_text("short")
    lowtide("train", "--model", "gpt", "--layers", "1", "--width", "16", "--heads", "1",
            "--sequence", "16", "--batch", "1", "--text", "t.txt", "--threads",
            "1").fails(2, "t.txt", "shorter than one batch")


def test_profile_of_another_device(lowtide, graph):
    (lowtide.folder / "profile.json").write_text("{}")
    lowtide("train", *TINY, "--profile", "profile.json").fails(2, "profile.json")
    shutil.copy(next((lowtide.cache / "lowtide").glob("profile-*.json")),
                lowtide.folder / "profile.json")
    profile = (lowtide.folder / "profile.json")
    document = json.loads(profile.read_text())
    document["device"] = "a computer far away"
    profile.write_text(json.dumps(document))
    lowtide("train", *TINY, "--profile", "profile.json").fails(2, "a computer far away")
    lowtide("profile", graph, "-o", "x.json", "--profile",
            "profile.json").fails(2, "a computer far away")


@pytest.fixture
def checkpoint(lowtide):
    assert lowtide("train", *TINY, "--steps", "2", "--save", "run.ckpt").code == 0
    return lowtide.folder / "run.ckpt"


def test_checkpoint_of_another_model(lowtide, checkpoint):
    lowtide("train", "--resume", "run.ckpt", "--model", "vgg16", "--steps",
            "3").fails(2, "mlp", "vgg16")
    lowtide("train", "--resume", "run.ckpt", "--width", "64", "--steps",
            "3").fails(2, "--width 32, now 64")
    lowtide("train", "--resume", "run.ckpt", "--lr", "0.3", "--steps",
            "3").fails(2, "--lr 0.1, now 0.3")
    lowtide("train", "--resume", "run.ckpt", "--optimizer", "adam", "--steps",
            "3").fails(2, "--optimizer sgd, now adam")
    lowtide("train", "--resume", "run.ckpt", "--precision", "bf16", "--steps",
            "3").fails(2, "--precision f32, now bf16")
    assert lowtide("train", "--resume", "run.ckpt", "--width", "32", "--lr", "0.1", "--steps",
                   "3").code == 0


def test_a_resumed_run_may_leave_its_reserve(lowtide):
    assert lowtide("train", *TINY, "--steps", "1", "--overrun", "reserve", "--reserve", "1MB",
                   "--save", "run.ckpt").code == 0
    resume = ["train", "--resume", "run.ckpt", "--steps", "2", "--overrun", "stop"]
    lowtide(*resume, "--reserve", "1MB").fails(2, "--overrun reserve")
    assert lowtide(*resume).code == 0


def test_damaged_checkpoints(lowtide, checkpoint):
    whole = checkpoint.read_bytes()
    for part in (0, 5, 100, len(whole) // 2, len(whole) - 1):
        checkpoint.write_bytes(whole[:part])
        lowtide("train", "--resume", "run.ckpt", "--steps", "3").fails(2, "run.ckpt")
    checkpoint.write_bytes(whole[:-100] + b"\x55" + whole[-99:])
    lowtide("train", "--resume", "run.ckpt", "--steps", "3").fails(2, "damaged")
    checkpoint.write_text("not a checkpoint, but long enough to be one at first sight")
    lowtide("train", "--resume", "run.ckpt", "--steps", "3").fails(2, "run.ckpt")


def test_no_space_on_disk(lowtide, graph):
    done = lowtide("train", *TINY, "--steps", "2", "--save", "/dev/full", "--json")
    assert done.code == 1 and done.json["status"] == "failed" and "/dev/full" in done.json["error"]
    assert len(done.json["losses"]) == 2
    lowtide("plan", graph, "--budget", "100%", "-o", "/dev/full").fails(1, "/dev/full")
    with open("/dev/full", "w") as full:
        import subprocess

        from conftest import BINARY
        done = subprocess.run([BINARY, "models"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "standard output" in done.stderr


def test_unreadable_files(lowtide, graph):
    if os.geteuid() == 0:
        pytest.skip("root may read every file")
    locked = lowtide.folder / "locked.json"
    locked.write_text("{}")
    locked.chmod(0)
    lowtide("plan", locked, "--budget", "60%").fails(2, "locked.json", "ermission")


def test_no_output_replaces_an_input_or_another_output(lowtide, graph, tmp_path):
    before = graph.read_bytes()
    link = tmp_path / "link.json"
    link.symlink_to(graph)
    for output in (graph, graph.parent / "." / graph.name, link):
        lowtide("plan", graph, "--budget", "90%", "-o", output).fails(2, "written over", "name")
        lowtide("layout", graph, "-o", output).fails(2, "written over", "name")
    new = tmp_path / "new"
    lowtide("plan", graph, "--budget", "90%", "-o", new, "--svg", new).fails(2, "written over")
    lowtide("profile", graph, "--profile", new, "-o", new).fails(2, "written over")
    assert graph.read_bytes() == before and not new.exists()


@pytest.mark.parametrize("option", ["--trace", "--plan-out", "--graph-out", "--dump-gradients"])
def test_a_run_keeps_its_checkpoint(lowtide, checkpoint, option):
    before = checkpoint.read_bytes()
    lowtide("train", "--resume", "run.ckpt", "--steps", "3", option,
            checkpoint).fails(2, "written over", "name")
    lowtide("train", *TINY, "--steps", "3", "--save", "run.ckpt", option,
            "./run.ckpt").fails(2, "written over")
    lowtide("train", "--resume", "run.ckpt", "--steps", "3", "--save", "new.ckpt", option,
            "run.ckpt").fails(2, "written over")
    assert checkpoint.read_bytes() == before


def test_plans_of_a_frontier_spare_their_graph(lowtide, graph):
    found = lowtide("frontier", graph, "--points", "2", "--time-limit", "2", "--json").json
    own = lowtide.folder / f"{found['points'][0]['budget_bytes']}.json"
    shutil.copy(graph, own)
    lowtide("frontier", own, "--points", "2", "--time-limit", "2", "--plans",
            lowtide.folder).fails(2, "written over")
    assert own.read_bytes() == graph.read_bytes()


def test_a_file_that_is_no_profile_is_called_so(lowtide, checkpoint, graph):
    for file in (checkpoint, graph):
        done = lowtide("train", *TINY, "--profile", file).fails(2, "not a lowtide-profile document")
        assert "delete" not in done.err


def test_a_pool_beyond_the_budget_ends_the_run(lowtide):
    """Its tensors of a few bytes take 64 each, which a plan's addresses do not."""
    tight = ["train", *TINY, "--dropout", "0", "--budget", "100%", "--steps", "2"]
    assert lowtide(*tight).code == 0
    done = lowtide(*tight, "--memory", "pool", "--json")
    done.fails(3, "the memory pool needs", "may take", "--memory static")
    assert done.json["status"] == "infeasible"


def test_a_folder_instead_of_a_file(lowtide):
    lowtide("plan", lowtide.folder, "--budget", "60%").fails(2, str(lowtide.folder))
    lowtide("train", "--resume", lowtide.folder).fails(2, str(lowtide.folder))


def test_an_unwritable_cache_is_no_obstacle(lowtide):
    lowtide.cache = "/dev/null"
    done = lowtide("train", *TINY, "--steps", "1")
    assert done.code == 0 and "could not be kept" in done.err


def test_json_into_a_full_device_is_one_error(lowtide):
    with open("/dev/full", "w") as full:
        done = subprocess.run([BINARY, "models", "--json"], stdout=full, stderr=subprocess.PIPE,
                              text=True, env=lowtide.environment)
    assert done.returncode == 1 and "cannot write to standard output" in done.stderr


@pytest.mark.parametrize("target", ["folder", "folder/missing/run.ckpt"])
def test_a_checkpoint_that_cannot_be_written_is_found_before_the_first_step(lowtide, tmp_path,
                                                                           target):
    (tmp_path / "folder").mkdir()
    result = lowtide("train", *TINY, "--steps", "100000", "--save", tmp_path / target)
    assert result.code != 0 and "cannot write" in result.err


def test_sizes_beyond_the_budget_are_refused_before_anything_is_measured(lowtide):
    """One activation alone is 1.5 GiB."""
    large = ["--model", "mlp", "--width", "20000", "--layers", "2", "--batch", "20000"]
    done = lowtide("train", *large, "--budget", "200MiB").fails(3, "3.16 GiB")
    assert "measured" not in done.err


def test_sizes_beyond_the_machine_are_refused(lowtide):
    huge = ["--model", "mlp", "--width", "2147483647", "--layers", "2", "--batch", "4"]
    lowtide("train", *huge, "--steps", "1").fails(3, "this machine has", "--budget")


@pytest.mark.parametrize("memory", ["static", "pool"])
def test_address_space_may_be_limited(lowtide, memory):
    """As by `ulimit -v`, far below the machine's memory."""
    limit = 8_000_000_000
    done = lowtide("train", *TINY, "--steps", "1", "--memory", memory, "--measure-again",
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert done.code == 0, done.err


@pytest.mark.parametrize("damage", ["text", "loop"])
def test_a_damaged_cache_is_measured_again(lowtide, tmp_path, damage):
    lowtide.cache = tmp_path
    lowtide("train", *TINY, "--steps", "1")
    (file,) = (tmp_path / "lowtide").glob("profile-*.json")
    if damage == "text":
        file.write_text('{"format"')
    else:
        file.unlink()
        file.symlink_to(file)
    done = lowtide("train", *TINY, "--steps", "1")
    assert done.code == 0 and "measuring again" in done.err


def test_a_cache_that_cannot_be_kept_is_not_said_to_be(lowtide):
    lowtide.cache = "/dev/null"
    assert "kept in" not in lowtide("train", *TINY, "--steps", "1").err.replace("be kept in", "")


def test_a_text_whose_name_is_no_utf8_is_trained_on_again(lowtide):
    name = os.path.join(os.fsencode(lowtide.folder), b"t\xe9xt")
    with open(name, "wb") as text:
        text.write(b"abcdefgh" * 100)
    model = ["--model", "gpt", "--layers", "1", "--width", "16", "--heads", "2", "--sequence", "8",
             "--vocabulary", "256", "--batch", "2", "--text", os.fsdecode(name)]
    assert lowtide("train", *model, "--steps", "2", "--save", "run.ckpt").code == 0
    resumed = lowtide("train", "--resume", "run.ckpt", "--steps", "4", "--json")
    assert resumed.json["steps_done"] == 4


def test_reading_takes_time_linear_in_the_keys(lowtide, graph):
    """A quadratic reader takes half a minute."""
    document = json.loads(graph.read_text())
    for folder in (document, document.setdefault("more", {})):
        folder.update({f"key {i}": 0 for i in range(200_000)})
    (lowtide.folder / "keys.json").write_text(json.dumps(document))
    assert lowtide("order", "keys.json", "--json").code == 0


def test_a_device_that_never_ends_is_refused(lowtide):
    lowtide("layout", "/dev/zero").fails(2, "goes on beyond")


def test_help_into_a_full_device_fails(lowtide):
    with open("/dev/full", "w") as full:
        done = subprocess.run([BINARY, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "cannot write to standard output" in done.stderr


def test_solutions_without_numbers_are_refused(lowtide, graph):
    lowtide("plan", graph, "--budget", "90%", "--export-mps", "model.mps")
    solution = lowtide.folder / "model.sol"
    solution.write_text("R_0_0 nan\n")
    lowtide("plan", graph, "--budget", "90%", "--import-solution", solution).fails(2, "R_0_0")
