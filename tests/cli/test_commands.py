"""What each subcommand does when all goes well."""

import json
import subprocess

import pytest
from conftest import BINARY, ROOT, TINY

COMMANDS = ["train", "run", "graph", "profile", "plan", "verify", "certify", "compare", "frontier",
            "order", "layout", "strategies", "models", "devices", "estimate", "max-batch",
            "max-length", "tune", "completions"]
PLAN_KEYS = {"cost", "overhead", "peak_bytes", "arena_bytes", "lower_bound", "gap", "seconds",
             "strategy", "budget_bytes", "status"}
TRAIN_KEYS = {"budget_bytes", "planned_peak_bytes", "arena_bytes", "measured_peak_bytes",
              "keep_all_peak_bytes", "step_seconds", "predicted_step_seconds", "losses"}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(lowtide, command):
    done = lowtide(command, "--help")
    assert done.code == 0
    assert "Examples:" in done.out and f"lowtide {command}" in done.out
    assert "Exit codes:" in done.out and "--json" in done.out


def test_general_help_lists_every_command(lowtide):
    out = lowtide("--help").out
    assert all(f"  {command} " in out for command in COMMANDS)
    assert lowtide("--version").out.startswith("lowtide ")


def test_every_option_is_documented(lowtide):
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    for command in COMMANDS:
        for word in lowtide(command, "--help").out.replace(",", " ").split():
            if word.startswith("--") and word != "--":
                assert f"`{word.rstrip('.:;')}" in page, (command, word)


@pytest.mark.parametrize("command, key", [("models", "models"), ("strategies", "strategies")])
def test_lists(lowtide, command, key):
    listed = lowtide(command, "--json").json[key]
    table = lowtide(command)
    assert table.code == 0
    assert all(entry["name"] in table.out for entry in listed)
    assert len(listed) > 5


def test_devices_say_what_runs_where(lowtide):
    found = lowtide("devices", "--json").json
    cpu, *others = found["devices"]
    assert cpu["device"] == "cpu" and cpu["supported"]
    assert 0 < cpu["free_bytes"] and 0 < cpu["memory_bytes"]
    assert others and all(other["supported"] or other["why_not"] for other in others)
    text = lowtide("devices").out
    for like in found["like"]:
        assert like["title"] in text
    assert {like["name"] for like in found["like"]} >= {"v100", "a100", "h100", "h200", "l40s",
                                                        "rtx4090", "mi300x"}


def test_plans_say_like_which_device_costs_are(lowtide):
    made = lowtide("graph", "--model", "mlp", "--like", "h200", "-o", "g.json", "--json").json
    assert made["costs"] == "estimates, like NVIDIA H200 SXM 141GB"
    planned = lowtide("plan", "g.json", "--budget", "100%", "--time-limit", "1", "--json").json
    assert planned["costs"] == made["costs"]
    assert made["costs"] in lowtide("plan", "g.json", "--budget", "100%", "--time-limit", "1").out
    refused = lowtide("graph", "--model", "mlp", "--like", "h20", "-o", "g.json")
    assert refused.code == 2
    assert 'Did you mean "h200"' in refused.err and "mi300x" in refused.err


def test_graph_profile_plan_verify(lowtide, graph):
    done = lowtide("plan", graph, "--budget", "80%", "-o", "p.json", "--json")
    assert done.code == 0, done.err
    plan = done.json
    assert PLAN_KEYS <= plan.keys()
    assert plan["peak_bytes"] <= plan["arena_bytes"] <= plan["budget_bytes"] < plan[
        "keep_all_peak_bytes"]
    assert plan["status"] in ("feasible", "optimal")
    verdict = lowtide("verify", graph, "p.json", "--json")
    assert verdict.code == 0 and verdict.json["valid"] is True
    assert verdict.json["arena_bytes"] == plan["arena_bytes"]


def test_order_saves_what_a_plan_then_saves(lowtide, graph):
    done = lowtide("order", graph, "--json")
    assert done.code == 0, done.err
    found = done.json
    assert (found["lower_bound_bytes"] <= found["ordered_peak_bytes"] <=
            found["in_place_peak_bytes"] <= found["keep_all_peak_bytes"])
    assert found["proven"] == (found["lower_bound_bytes"] == found["ordered_peak_bytes"])
    assert ("proven" in lowtide("order", graph).out) == found["proven"]
    kept = ["plan", graph, "--strategy", "keep-all", "--json", "--budget"]
    plan = lowtide(*kept, str(found["ordered_peak_bytes"] * 11 // 10)).json
    assert plan["overhead"] == 0
    if found["proven"]:
        assert lowtide(*kept, str(found["ordered_peak_bytes"] - 1)).code == 3


def test_layout_gives_offsets_and_says_what_is_proven(lowtide):
    path = lowtide.folder / "buffers.csv"
    path.write_text("id,lower,upper,size\na,0,2,10\nb,0,4,10\nc,0,2,10\nd,2,4,20\n")
    done = lowtide("layout", path, "-o", "placed.csv", "--json")
    assert done.code == 0, done.err
    assert done.json == {
        "status": "optimal", "buffers": 4, "height": 30, "lower_bound": 30, "proven": True
    }
    rows = [line.split(",") for line in (lowtide.folder / "placed.csv").read_text().splitlines()]
    assert rows[0] == ["id", "lower", "upper", "size", "offset"] and len(rows) == 5
    assert lowtide("layout", "placed.csv").code == 0  # its own output, every offset fixed
    lowtide("layout", path, "--capacity", "29").fails(3, "at least 30")
    path.write_text("id,lower,upper,size\na,0,2\n")
    lowtide("layout", path).fails(2, "line 2")


def test_a_certificate_proves_the_bound_of_its_plan(lowtide, graph):
    command = ("plan", graph, "--budget", "80%", "-O", "prove=0", "-O", "moments=off",
               "-o", "p.json", "--certificate", "c.json", "--json", "--time-limit", 4)
    done = lowtide(*command)
    assert done.code == 0, done.err
    plan = done.json
    verdict = lowtide("certify", graph, "p.json", "c.json", "--json")
    assert verdict.code == 0, verdict.err
    assert verdict.json["valid"] is True
    assert verdict.json["cost"] == pytest.approx(plan["cost"])
    assert verdict.json["lower_bound"] == pytest.approx(plan["lower_bound"])
    assert verdict.json["gap"] == pytest.approx(plan["gap"], abs=1e-6)
    assert "gap" in lowtide("certify", graph, "p.json", "c.json").out


def test_a_certificate_that_proves_less_than_the_plan_claims_says_so(lowtide, graph):
    done = lowtide("plan", graph, "--budget", "80%", "-o", "p.json", "--certificate", "c.json",
                   "--json", "--time-limit", 4)
    assert done.code == 0, done.err
    verdict = lowtide("certify", graph, "p.json", "c.json", "--json")
    assert verdict.code == 0, verdict.err
    claimed = done.json["lower_bound"]  # by an exact program, if that was needed
    assert verdict.json["lower_bound"] <= claimed * (1 + 1e-9)
    proves_less = verdict.json["lower_bound"] < claimed * (1 - 1e-6)
    assert ("note: the certificate proves" in done.err) == proves_less


def test_a_false_certificate_is_refused_by_name(lowtide, graph):
    lowtide("plan", graph, "--budget", "80%", "-o", "p.json", "--certificate", "c.json")
    certificate = json.loads((lowtide.folder / "c.json").read_text())
    for key, value, flaw in [("lower_bound", 1.01 * certificate["lower_bound"], "bound_too_high"),
                             ("digest", "0123456789abcdef", "wrong_graph"),
                             ("budget_bytes", certificate["budget_bytes"] - 1, "wrong_budget"),
                             ("prices", [[certificate["ops"], -1.0]], "bad_price")]:
        (lowtide.folder / "false.json").write_text(json.dumps({**certificate, key: value}))
        done = lowtide("certify", graph, "p.json", "false.json", "--json").fails(2, flaw)
        assert done.json["flaw"] == flaw and done.json["valid"] is False
    done = lowtide("plan", graph, "--budget", "100%", "--strategy", "segments", "--certificate",
                   "d.json")
    done.fails(2, "no proof of a lower bound")


def test_the_independent_checker_agrees(lowtide, graph):
    plan = lowtide("plan", graph, "--budget", "80%", "-o", "p.json", "--json").json
    checker = ROOT / "tools" / "check_plan.py"
    done = subprocess.run(["python3", checker, graph, lowtide.folder / "p.json", "--budget",
                           str(plan["budget_bytes"])], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(plan["arena_bytes"]) in done.stdout


def test_plan_for_people_explains(lowtide, graph):
    out = lowtide("plan", graph, "--budget", "75%").out
    assert "budget" in out and "arena" in out and "overhead" in out


@pytest.mark.parametrize("strategy, plans", [("search", "order"), ("intervals", "in a stage")])
def test_plan_says_which_plans_its_bound_is_for(lowtide, graph, strategy, plans):
    lines = lowtide("plan", graph, "--budget", "75%", "-s", strategy, "--time-limit", 4).out
    scope = [line for line in lines.splitlines() if line.startswith("the bound is for")]
    assert len(scope) == 1 and plans in scope[0]


def test_plan_says_what_more_memory_would_save(lowtide, graph):
    free = lowtide("plan", graph, "--budget", "75%", "--json").json["with_more"]
    assert free["extra_bytes"] > 0 and free["saves_at_most"] >= 0 and free["saves"] is None
    done = lowtide("plan", graph, "--budget", "75%", "--explain", "--time-limit", 4)
    assert done.code == 0, done.err
    assert "a plan was found that saves" in done.out and "no plan saves more than" in done.out


def test_a_refusal_says_what_takes_the_bytes(lowtide, graph):
    done = lowtide("plan", graph, "--budget", "1KiB", "--time-limit", 1)
    done.fails(3, "parameters", "reads", "makes")
    assert "smaller batch" in done.err


def test_every_strategy_answers(lowtide, graph):
    names = [s["name"] for s in lowtide("strategies", "--json").json["strategies"]]
    done = lowtide("compare", graph, "--budgets", "100%,80%", "--time-limit", "3", "--json")
    assert done.code == 0, done.err
    rows = done.json["rows"]
    assert [(r["budget"], r["strategy"]) for r in rows] == [(b, n) for b in ("100%", "80%")
                                                            for n in names]
    for row in rows:
        if row["status"] in ("feasible", "optimal"):
            assert row["arena_bytes"] <= row["budget_bytes"]
        else:
            assert row["status"] == "infeasible" and row["smallest_budget_bytes"]
        assert (row["bound_model"] is None) == (row["lower_bound"] is None)
    assert any(r["budget"] == "80%" and r["arena_bytes"] for r in rows)
    table = lowtide("compare", graph, "--budgets", "80%", "--strategies",
                    f"{names[0]}, {names[1]}").out
    assert "overhead" in table and names[0] in table and names[1] in table


def test_settings_of_a_strategy_are_compared(lowtide, graph):
    asked = ["search", "segments:segments=2", "segments:segments=3",
             "megatron:granularity=selective", "megatron:method=block:layers=2"]
    rows = lowtide("compare", graph, "--budgets", "100%", "--time-limit", 2, "--strategies",
                   ",".join(asked), "--json").json["rows"]
    assert [row["strategy"] for row in rows] == asked
    for row in rows[1:]:
        name, *options = row["strategy"].split(":")
        alone = lowtide("plan", graph, "--budget", "100%", "-s", name,
                        *(part for option in options for part in ("-O", option)), "--json").json
        assert (row["cost"], row["peak_bytes"]) == (alone["cost"], alone["peak_bytes"])
        assert row["cost"] >= rows[0]["cost"]


@pytest.mark.parametrize("strategies, words", [
    ("segments:segments", ["NAME=VALUE"]), ("segments:segments=x", ["segments"]),
    ("segments:layers=2", ["layers"]), (":segments=2", ["empty"]), ("serch", ["search"]),
    ("poet", ["slower memory", "--bandwidth"]), ("offload", ["slower memory"])])
def test_settings_that_are_none_are_refused_before_planning(lowtide, graph, strategies, words):
    lowtide("compare", graph, "--budgets", "100%", "--strategies", strategies).fails(2, *words)


def test_a_strategy_that_moves_values_needs_slower_memory(lowtide, graph):
    for command in (("plan", graph, "--budget", "80%"), ("frontier", graph)):
        lowtide(*command, "-s", "save-on-cpu").fails(2, "save-on-cpu", "slower memory")


def test_a_comparison_says_of_which_plans_a_bound_is(lowtide, graph):
    """One for plans in the graph's order may be above what another order costs."""
    asked = ("compare", graph, "--budgets", "100%,80%", "--strategies", "search,checkmate",
             "--time-limit", "1")
    document = lowtide(*asked, "--json").json
    bounded = {row["strategy"] for row in document["rows"] if row["bound_model"] == "fixed-order"
               and row["lower_bound"] > document["keep_all_cost"]}
    assert "checkmate" in bounded
    text = lowtide(*asked).out
    assert f"The bound of {', '.join(sorted(bounded))} is for plans in the graph's order." in text


def test_frontier_falls_to_the_smallest_budget(lowtide, graph):
    done = lowtide("frontier", graph, "--points", 4, "--time-limit", 8, "--plans", "plans",
                   "--json").json
    assert done["status"] == "complete"
    points = done["points"]
    assert all(a["budget_bytes"] > b["budget_bytes"] and a["cost"] <= b["cost"]
               for a, b in zip(points, points[1:]))
    assert points[-1]["budget_bytes"] == done["smallest_budget_bytes"]
    for point in points:
        plan = lowtide.folder / "plans" / f"{point['budget_bytes']}.json"
        assert lowtide("verify", graph, plan).code == 0


def test_an_exported_program_is_planned_by_its_solution(lowtide, graph):
    written = lowtide("plan", graph, "--budget", "80%", "--export-mps", "g.mps", "--json").json
    text = (lowtide.folder / "g.mps").read_text()
    assert text.count("\n R_0_0 ") and text.endswith("ENDATA\n") and written["rows"] > 100
    (lowtide.folder / "g.sol").write_text("R_0_0 1\n")  # nothing runs again
    plan = lowtide("plan", graph, "--budget", "1GiB", "--import-solution", "g.sol", "--json").json
    assert plan["overhead"] == pytest.approx(0, abs=1e-9) and plan["strategy"] == "imported"
    done = lowtide("plan", graph, "--budget", "50%", "--import-solution", "g.sol")
    done.fails(3, "needs an arena of")
    (lowtide.folder / "g.sol").write_text("x 1\n")
    lowtide("plan", graph, "--budget", "80%", "--import-solution", "g.sol").fails(2, "g.sol", "R_")


def test_a_graph_that_cannot_run_can_be_planned(lowtide):
    chain = {
        "format": "lowtide-graph", "version": 1, "name": "chain", "cost_unit": "flops",
        "tensors": [{"name": f"t{i}", "bytes": 10, "kind": "value"} for i in range(12)],
        "ops": [{"name": f"o{i}", "type": "any", "inputs": inputs, "outputs": [i], "cost": 1}
                for i, inputs in enumerate([[]] + [[i] for i in range(5)] + [[5]] +
                                           [[11 - i, i - 1]
                                            for i in range(5, 0, -1)])], "outputs": [11]
    }
    for i, op in enumerate(chain["ops"][7:], start=7):
        op["inputs"] = [i - 1, 11 - i]
    (lowtide.folder / "c.json").write_text(json.dumps(chain))
    done = lowtide("plan", "c.json", "--budget", "75%", "--time-limit", "5", "--json")
    assert done.code == 0, done.err
    assert done.json["arena_bytes"] <= done.json["budget_bytes"]
    lowtide("profile", "c.json", "-o", "d.json").fails(2, "cannot be measured")


def test_train_with_check(lowtide):
    done = lowtide("train", *TINY, "--steps", "3", "--budget", "80%", "--check", "--json")
    assert done.code == 0, done.err
    result = done.json
    assert TRAIN_KEYS <= result.keys()
    assert result["bit_identical"] is True and len(result["losses"]) == 3
    assert result["measured_peak_bytes"] <= result["budget_bytes"] < result["keep_all_peak_bytes"]
    assert result["outside_bytes"] == 0
    assert "bit_identical" not in lowtide("train", *TINY, "--steps", "1", "--json").json


def test_train_for_people(lowtide):
    done = lowtide("train", *TINY, "--steps", "2")
    assert done.code == 0
    assert "measured peak" in done.out and "step 2/2" in done.err


def test_save_and_resume(lowtide):
    whole = lowtide("train", *TINY, "--steps", "4", "--json").json["losses"]
    first = lowtide("train", *TINY, "--steps", "2", "--save", "run.ckpt", "--json").json["losses"]
    done = lowtide("train", "--resume", "run.ckpt", "--steps", "4", "--json")
    assert done.code == 0, done.err
    assert done.json["first_step"] == 2 and first + done.json["losses"] == whole
    again = lowtide("train", "--resume", "run.ckpt")
    assert again.code == 0 and "done already" in again.out


def test_another_order_trains_to_the_same_bits(lowtide):
    """Nothing runs again; the memory that is missing comes from the order alone."""
    done = lowtide("train", *TINY, "--batch", "4", "--width", "64", "--steps", "3", "--budget",
                   "93%", "--strategy", "keep-all", "--check", "--json")
    assert done.code == 0, done.err
    run = done.json
    assert run["bit_identical"] is True
    assert run["measured_peak_bytes"] < 0.94 * run["keep_all_measured_peak_bytes"]
    assert run["overhead"] == pytest.approx(0)


def test_a_checkpoint_is_a_safetensors_file(lowtide):
    safetensors = pytest.importorskip("safetensors.numpy",
                                      reason="the safetensors package is not installed")
    assert lowtide("train", *TINY, "--steps", "1", "--save", "run.ckpt").code == 0
    tensors = safetensors.load_file(lowtide.folder / "run.ckpt")
    assert tensors["layers.0.weight"].shape == (32, 64)


def test_files_of_a_run(lowtide):
    done = lowtide("train", *TINY, "--steps", "2", "--budget", "80%", "--trace", "t.json",
                   "--plan-out", "p.json", "--graph-out", "g.json", "--dump-gradients",
                   "d.safetensors")
    assert done.code == 0, done.err
    assert lowtide("verify", "g.json", "p.json").code == 0
    trace = json.loads((lowtide.folder / "t.json").read_text())
    assert any(event.get("ph") == "X" for event in trace["traceEvents"])


def test_learns_from_text(lowtide):
    (lowtide.folder / "t.txt").write_text("the tide goes out, the tide comes in. " * 50)
    done = lowtide("train", "--model", "gpt", "--layers", "2", "--width", "32", "--heads", "2",
                   "--sequence", "32", "--batch", "4", "--dropout", "0", "--optimizer", "adamw",
                   "--lr", "0.01", "--threads", "1", "--text", "t.txt", "--steps", "30", "--json")
    assert done.code == 0, done.err
    losses = done.json["losses"]
    assert losses[-1] < 0.6 * losses[0]
    assert done.json["items"] == "tokens"


def test_trains_in_mixed_precision(lowtide):
    options = ["train", *TINY, "--batch", "128", "--steps", "3", "--check"]
    done = lowtide(*options, "--budget", "80%", "--precision", "bf16", "--json")
    assert done.code == 0, done.err
    assert done.json["bit_identical"]
    assert "skipped_steps" not in done.json
    # Where a processor computes in fp16, an op of this small model works in most of its memory.
    options += "--budget", "100%"
    done = lowtide(*options, "--precision", "fp16", "--loss-scale", 2.0 ** 90, "--json")
    assert done.code == 0, done.err
    assert done.json["bit_identical"]
    assert done.json["skipped_steps"] == 3 and done.json["loss_scale"] == 2.0 ** 87
    assert "3 steps skipped" in lowtide(*options, "--precision", "fp16", "--loss-scale",
                                        2.0 ** 90).out


def test_trains_with_gradients_and_state_in_bf16(lowtide):
    done = lowtide("train", *TINY, "--batch", "128", "--steps", "3", "--budget", "80%", "--check",
                   "--optimizer", "adam", "--gradient-type", "bf16", "--state-type", "bf16",
                   "--json")
    assert done.code == 0, done.err
    assert done.json["bit_identical"]


def test_computes_the_forward_pass_in_mixed_precision(lowtide):
    losses = [lowtide("run", *TINY, "--precision", precision, "--json").json["losses"][0]
              for precision in ("f32", "bf16", "fp16")]
    assert len(set(losses)) == 3
    assert losses[1:] == pytest.approx([losses[0]] * 2, rel=0.01)


def test_a_graph_in_mixed_precision_takes_less_memory(lowtide):
    def peak(precision):
        done = lowtide("graph", "--model", "gpt", "--layers", "2", "--batch", "8", "--width", "32",
                       "--heads", "2", "--sequence", "64", "--vocabulary", "64",
                       "--precision", precision, "-o", "g.json", "--json")
        return done.json["keep_all_peak_bytes"]

    assert peak("bf16") < 0.75 * peak("f32")
    assert lowtide("plan", "g.json", "--budget", "70%", "--time-limit", "2").code == 0
    assert lowtide("profile", "g.json", "-o", "p.json").code == 0


def test_binary_is_where_it_should_be():
    assert subprocess.run([BINARY, "--version"], capture_output=True).returncode == 0
