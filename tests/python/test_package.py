"""The Python package: files go round, plans hold by the independent checker, errors teach."""

import importlib.util
import json
import math
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
import weakref
import xml.etree.ElementTree
from collections.abc import Sequence

import lowtide
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowtide.interruptible import no_interrupt_lost
from random_graphs import graphs

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYERED = ROOT / "data" / "graphs" / "layered-100.json"


def _checker():
    spec = importlib.util.spec_from_file_location("check_plan", ROOT / "tools" / "check_plan.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_plan = _checker()


def parse(document):
    return lowtide.Graph.parse(json.dumps(document))


def contents(document):
    """Of a graph file, without what may be left out."""
    return {"outputs": document["outputs"],
            "tensors": [(t["name"], t["bytes"], t["kind"], t.get("alias_of"))
                        for t in document["tensors"]],
            "ops": [(o["name"], o["type"], o["inputs"], o["outputs"], o["cost"],
                     o.get("workspace_bytes", 0), o.get("recomputable", True))
                    for o in document["ops"]]}


@settings(deadline=None)
@given(graphs())
def test_a_graph_goes_round(document):
    graph = parse(document)
    assert contents(json.loads(graph.format())) == contents(document)
    assert graph.format() == pickle.loads(pickle.dumps(graph)).format()
    assert [op.name for op in graph.ops] == [op["name"] for op in document["ops"]]
    assert graph.resident_bytes == document["tensors"][0]["bytes"]


def test_ops_and_tensors_are_sequences():
    graph = lowtide.Graph.load(LAYERED)
    for items in (graph.ops, graph.tensors):
        names = [item.name for item in items]
        assert len(items) == len(names) and items[-1].name == names[-1] and items[2] in items
        assert [item.name for item in items[3:9:2]] == names[3:9:2]
        assert [item.name for item in reversed(items)] == [item.name for item in items[::-1]]
        assert isinstance(items, Sequence)
        for outside in (len(names), -len(names) - 1):
            with pytest.raises(IndexError, match=f"{outside} of {len(names)}"):
                items[outside]
    op = graph.ops[5]
    del graph, items
    assert op.name  # keeps its graph


@pytest.mark.parametrize("ops", [100, 5000])
def test_one_op_of_a_large_graph_is_had_without_the_others(ops):
    graph = lowtide.Graph.load(ROOT / "data" / "graphs" / f"layered-{ops}.json")
    tracemalloc.start()
    assert graph.ops[ops // 2].name and graph.tensors[ops // 2].name
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4096


@settings(deadline=None)
@given(graphs())
def test_keep_all_is_that_of_the_checker(document):
    graph = parse(document)
    theirs = check_plan.replay(document, check_plan.keep_all(document))
    ours = lowtide.replay(graph, lowtide.keep_all(graph))
    assert theirs["valid"]
    assert (ours.cost, ours.peak_bytes) == (theirs["cost"], theirs["peak_bytes"])


@settings(deadline=None, max_examples=60)
@given(graphs(), st.sampled_from([s.name for s in lowtide.strategies()]), st.integers(30, 100))
def test_every_plan_holds_by_the_checker(document, strategy, percent):
    graph = parse(document)
    found = lowtide.plan(graph, f"{percent}%", strategy, time_limit=0.5)
    if found.plan is None:
        assert found.outcome in ("infeasible", "stopped")
        assert found.message
        return
    plan = json.loads(found.plan.format())
    checked = check_plan.replay(document, plan, found.budget_bytes)
    assert checked["valid"], checked
    assert checked["cost"] == pytest.approx(found.plan.cost)
    assert checked["peak_bytes"] == found.plan.peak_bytes
    assert checked.get("arena_bytes", 0) <= found.budget_bytes
    assert lowtide.verify(graph, found.plan) is None
    if found.plan.lower_bound is not None:
        assert found.plan.lower_bound <= found.plan.cost * (1 + 1e-9)


@settings(deadline=None)
@given(graphs(), st.data())
def test_both_checkers_agree_on_a_plan_that_lacks_an_action(document, data):
    graph = parse(document)
    plan = json.loads(lowtide.keep_all(graph).format())
    del plan["actions"][data.draw(st.integers(0, len(plan["actions"]) - 1))]
    ours = lowtide.verify(graph, lowtide.Plan.parse(json.dumps(plan)))
    assert (ours is None) == check_plan.replay(document, plan)["valid"]


def test_files_go_round(tmp_path):
    graph = lowtide.Graph.load(LAYERED)
    found = lowtide.plan(graph, "80%", options={"moves": 20}, time_limit=5)
    assert found.outcome == "feasible" and found.overhead > 0 and found.gap > 0
    # The certificate is about the graph's order, which a plan below its bound need not keep.
    assert json.loads(found.certificate)["lower_bound"] >= 0.999999 * found.plan.lower_bound
    graph.save(tmp_path / "graph.json")
    found.plan.save(tmp_path / "plan.json")
    plan = lowtide.Plan.load(tmp_path / "plan.json")
    assert plan.actions == found.plan.actions
    assert pickle.loads(pickle.dumps(plan)).actions == plan.actions
    assert lowtide.verify(lowtide.Graph.load(tmp_path / "graph.json"), plan) is None


def test_reports_are_made(tmp_path):
    graph = lowtide.Graph.load(LAYERED)
    plan = lowtide.keep_all(graph)
    assert lowtide.format_bytes(plan.peak_bytes) in lowtide.explain(graph, plan)
    for most in ("a", -1, 1.5):
        with pytest.raises(lowtide.InputError, match="most must be a whole number, at least 0"):
            lowtide.explain(graph, plan, most)
    picture = lowtide.memory_plot(graph, [("keep-all", plan)], "layered")
    assert xml.etree.ElementTree.fromstring(picture).tag.endswith("svg")
    lowtide.write_trace(graph, plan, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == len(graph.ops)


def test_the_frontier_is_monotone():
    graph = lowtide.Graph.load(ROOT / "data" / "graphs" / "chain-20s3.json")
    found = lowtide.frontier(graph, 5, options={"moves": 10}, time_limit=20)
    assert len(found.points) == 5 and not found.stopped
    assert found.points[-1].budget_bytes == found.smallest_budget
    for more, less in zip(found.points, found.points[1:]):
        assert less.budget_bytes < more.budget_bytes and less.plan.cost >= more.plan.cost
        assert lowtide.verify(graph, less.plan, less.budget_bytes) is None


def test_more_work_or_memory_is_never_answered_by_a_worse_plan():
    graph = lowtide.Graph.load(LAYERED)
    cheap = lowtide.plan(graph, "70%", time_limit=2).plan.cost
    for budget in ("70%", "71%", "75%"):
        alone = lowtide.plan(graph, budget, time_limit=0.01, cache=False).plan
        assert alone is None or alone.cost > cheap
        assert lowtide.plan(graph, budget, time_limit=0.01).plan.cost <= cheap


def test_an_infeasible_budget_names_the_smallest():
    graph = lowtide.Graph.load(LAYERED)
    found = lowtide.plan(graph, lowtide.structural_floor_bytes(graph) - 1, "keep-all", time_limit=1)
    assert found.outcome == "infeasible" and found.plan is None
    assert str(found.smallest_budget) in found.message
    again = lowtide.plan(graph, found.smallest_budget, "keep-all", time_limit=1)
    assert again.plan.arena_bytes <= found.smallest_budget


@pytest.mark.parametrize("call, words", [
    (lambda g: lowtide.plan(g, "80%", "serch"), ("serch", "search")),
    (lambda g: lowtide.plan(g, "80%", options={"move": 3}), ("move", "moves")),
    (lambda g: lowtide.plan(g, "1.5GiBs"), ("1.5GiBs",)),
    (lambda g: lowtide.plan("g.json", "80%"), ("Graph.load", "g.json")),
    (lambda g: lowtide.plan(g, "80%", 5), ("strategy", "5")),
    (lambda g: lowtide.plan(g, "80%", options="moves=1"), ("options", "moves=1")),
    (lambda g: lowtide.plan(g, "80%", options={"moves": [5]}), ("moves", "[5]")),
    (lambda g: lowtide.plan(g, "80%", options={1: 2, "moves": 1}), ("a text", "1")),
    (lambda g: lowtide.plan(g, "80%", time_limit=-1), ("time_limit", "0 for no limit", "-1")),
    (lambda g: lowtide.plan(g, "80%", time_limit=math.nan), ("time_limit", "nan")),
    (lambda g: lowtide.plan(g, "80%", time_limit=math.inf), ("time_limit", "inf")),
    (lambda g: lowtide.frontier(g, 10**9, time_limit=0.1), ("points", "at most 1000")),
    (lambda g: lowtide.frontier(g, time_limit=None), ("time_limit", "None")),
    (lambda g: lowtide.Graph.load("no/such/file.json"), ("no/such/file.json",)),
    (lambda g: lowtide.Graph.parse("{", "mine.json"), ("mine.json",)),
    (lambda g: lowtide.Plan.parse('{"format": "lowtide-graph"}'), ("lowtide-plan",)),
])
def test_what_is_wrong_is_said(call, words):
    with pytest.raises(lowtide.InputError) as error:
        call(lowtide.Graph.load(LAYERED))
    for word in words:
        assert word in str(error.value)


def test_numbers_of_numpy_and_strategies_as_objects_are_taken():
    graph = lowtide.Graph.load(LAYERED)
    segments = next(found for found in lowtide.strategies() if found.name == "segments")
    most = lowtide.replay(graph, lowtide.keep_all(graph)).peak_bytes
    found = lowtide.plan(graph, numpy.float32(2 * most), segments, time_limit=numpy.int64(1),
                         options={"segments": numpy.int64(3)})
    assert found.plan is not None and found.plan.strategy == "segments"


def test_other_threads_run_while_planning():
    graph = lowtide.Graph.load(LAYERED)
    counted = 0
    planning = threading.Thread(target=lowtide.plan, args=(graph, "60%"),
                                kwargs={"time_limit": 1.0})
    planning.start()
    while planning.is_alive():
        counted += 1
        time.sleep(0.001)
    assert counted > 10


@pytest.fixture
def heard_interrupts():
    """SIGINT as a terminal sends it; a process that was started in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_the_search_and_the_next_one_runs(heard_interrupts):
    graph = lowtide.Graph.load(LAYERED)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        lowtide.plan(graph, "60%", options={"moves": 1e9}, time_limit=60)
    assert not any(thread.name == "lowtide" for thread in threading.enumerate())
    assert lowtide.plan(graph, "100%", time_limit=20).plan is not None


SEARCHES = """
import signal, sys, lowtide
from lowtide.interruptible import in_background
signal.signal(signal.SIGINT, signal.default_int_handler)
graph = lowtide.Graph.load(sys.argv[1])
def search():
    lowtide.plan(graph, "60%", options={"moves": 1e9}, time_limit=600)
if sys.argv[2] == "in the background":
    in_background(search, lowtide._core, "search")
print("searches", flush=True)
if sys.argv[2] == "at once":
    search()
"""


@pytest.mark.parametrize("place", ["at once", "in the background"])
def test_interrupts_end_a_program_as_they_end_any_other(place):
    """However many come, also while it ends: no thread may be left in the planner then."""
    program = subprocess.Popen([sys.executable, "-c", SEARCHES, LAYERED, place], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout.readline() == "searches\n"
    for _ in range(600):
        time.sleep(0.1)
        if program.poll() is not None:
            break
        program.send_signal(signal.SIGINT)
    program.kill()
    errors = program.communicate()[1]
    assert program.returncode in (-signal.SIGINT, 0, 1), errors
    assert "terminate" not in errors


WITHOUT_THREADS = """
import threading, lowtide
from lowtide.interruptible import in_background
def refused(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refused
try:
    in_background(print, lowtide._core, "search")
except RuntimeError as error:
    print(error)
"""


def test_a_program_that_gets_no_thread_ends():
    done = subprocess.run([sys.executable, "-c", WITHOUT_THREADS], text=True, timeout=60,
                          capture_output=True)
    assert (done.returncode, done.stdout) == (0, "can't start new thread\n"), done.stderr


def interrupted_in_a_finalizer():
    """Python drops what is raised there."""
    class Dropped:
        pass

    dropped = Dropped()
    reference = weakref.ref(dropped, lambda _: signal.raise_signal(signal.SIGINT))
    del dropped
    return reference


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_interrupt_is_lost(heard_interrupts):
    interrupted_in_a_finalizer()
    with pytest.raises(KeyboardInterrupt), no_interrupt_lost():
        interrupted_in_a_finalizer()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_is_heard_once_by_handlers_that_raise_nothing(heard_interrupts):
    heard = []
    signal.signal(signal.SIGINT, lambda *of: heard.append(of))
    with no_interrupt_lost():
        signal.raise_signal(signal.SIGINT)
    assert len(heard) == 1


def test_ctrl_c_waits_for_the_import_of_torch():
    program = """
import os, signal, sys, threading, time
import lowtide

def interrupt():
    while "torch._dynamo" not in sys.modules:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt).start()
try:
    lowtide.wrap
    raise SystemExit("not interrupted")
except KeyboardInterrupt:
    pass
import torch
assert torch.compile(torch.nn.Linear(2, 2), backend="eager")(torch.ones(1, 2)).shape == (1, 2)
assert lowtide.wrap is not None
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_name_has_its_type():
    stub = (ROOT / "python" / "lowtide" / "_core.pyi").read_text()
    for name in dir(lowtide._core):
        if not name.startswith("_"):
            declarations = f"class {name}", f"def {name}(", f"\n{name}: "
            assert any(declaration in stub for declaration in declarations), name


def test_other_solvers_are_looked_for_in_this_interpreter(monkeypatch, tmp_path):
    (tmp_path / "ortools.py").write_text("raise ImportError('OR-Tools is missing')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("LOWTIDE_PYTHON", raising=False)
    with pytest.raises(lowtide.InputError, match=f"{re.escape(sys.executable)} cannot run CP-SAT"):
        lowtide.plan(lowtide.Graph.load(LAYERED), "80%", "intervals",
                     options={"solver": "cp-sat", "rounds": 0})
