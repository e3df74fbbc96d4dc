"""Plans in the formats of other tools, as those tools read them."""

import csv
import functools
import json
import pathlib
import pickle
import pickletools
import shutil
import subprocess
import sys

import lowtide
import pytest
import torch
from lowtide import _core
from lowtide.formats import ShownPlan, write_plans
from lowtide.page.lives import lives
from lowtide.page.schedule import schedule
from report_cases import ROOT, graph_of, graph_with_a_write_in_place, hostile_graph, moving, planned
from torch.cuda import _memory_viz as memory_viz

#: What https://pytorch.org/memory_viz has cases for in its own reader of pickles, which knows
#: protocols 2 to 4.
READ_BY_MEMORY_VIZ = {
    "PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET",
    "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "TUPLE",
    "TUPLE1", "TUPLE2", "TUPLE3", "LIST", "DICT", "NONE", "NEWTRUE", "NEWFALSE", "BININT",
    "BININT1", "BININT2", "LONG1", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE"}
CASES = ["resnet", "with_moves", "in_place", "hostile"]
NAMES = {"trace": "plan.json", "snapshot": "plan.pickle", "dot": "plan.dot", "csv": "plan.csv"}


@functools.cache
def case(name):
    if name == "with_moves":
        graph = graph_of("torch-gpt")
        return graph, moving(graph, 0.5)
    graph = {"resnet": lambda: graph_of("torch-resnet50"), "in_place": graph_with_a_write_in_place,
             "hostile": hostile_graph}[name]()
    return graph, planned(graph, "60%" if name == "resnet" else "100%")


@pytest.fixture(scope="module", params=CASES)
def shown(request):
    return case(request.param)


@pytest.fixture(scope="module")
def with_moves():
    return case("with_moves")


def written(tmp_path, graph, plan, kind):
    return lowtide.report(graph, tmp_path / NAMES[kind], plan)


def snapshot_of(path):
    """A pickle that this test wrote a moment ago."""
    return pickle.loads(path.read_bytes())


def peak_of(snapshot, device=0):
    """As memory_viz adds it up; also that no two blocks share a byte and that frees fit."""
    segment, = (one for one in snapshot["segments"] if one["device"] == device)
    blocks = {block["address"]: block["size"] for block in segment["blocks"]
              if block["state"] == "active_allocated"}
    events = snapshot["device_traces"][device]
    for event in reversed(events):  # back to the beginning
        if event["action"] == "alloc":
            assert blocks.pop(event["addr"]) == event["size"]
        elif event["action"] == "free_completed":
            blocks[event["addr"]] = event["size"]
    peak = sum(blocks.values())
    for event in events:
        begin, end = event["addr"], event["addr"] + event["size"]
        if event["action"] == "alloc":
            assert not [at for at, size in blocks.items() if at < end and begin < at + size]
            assert segment["address"] <= begin
            assert end <= segment["address"] + segment["total_size"]
            blocks[begin] = event["size"]
        elif event["action"] == "free_completed":
            assert blocks.pop(begin) == event["size"]
        peak = max(peak, sum(blocks.values()))
    return peak


def test_a_snapshot_is_the_plan(shown, tmp_path):
    graph, plan = shown
    path = written(tmp_path, graph, plan, "snapshot")
    snapshot = snapshot_of(path)
    assert peak_of(snapshot) == plan.peak_bytes
    segment, = snapshot["segments"]
    assert segment["total_size"] == sum(b["size"] for b in segment["blocks"]) == plan.arena_bytes
    addresses = [block["address"] for block in segment["blocks"]]
    sizes = [block["size"] for block in segment["blocks"]]
    assert [a + s for a, s in zip(addresses, sizes)][:-1] == addresses[1:]  # no byte is left out
    times = [event["time_us"] for event in snapshot["device_traces"][0]]
    assert times == sorted(times)
    used = {op.name for op, _, _ in pickletools.genops(path.read_bytes())}
    assert used <= READ_BY_MEMORY_VIZ
    assert path.read_bytes()[:2] == b"\x80\x04"


def test_torch_reads_a_snapshot(with_moves, tmp_path):
    path = written(tmp_path, *with_moves, "snapshot")
    allocs = [event for event in snapshot_of(path)["device_traces"][0]
              if event["action"] == "alloc"]
    lines = memory_viz.trace(snapshot_of(path)).splitlines()
    assert sum(" = seg_0[" in line or " = MEM[" in line for line in lines) == len(allocs) > 100
    assert "inactive" not in memory_viz.segsum(snapshot_of(path)).split("Legend")[0]
    for flames in (memory_viz.segments, memory_viz.memory):
        assert "parameters" in flames(snapshot_of(path), format_flamegraph=lambda text: text)
    for page in (memory_viz.trace_plot, memory_viz.segment_plot):
        assert "snapshot.pickle" in page(snapshot_of(path))


def test_a_snapshot_needs_addresses(tmp_path):
    graph = graph_of("chain-20s0")
    plan = lowtide.keep_all(graph)
    assert plan.arena_bytes is None
    with pytest.raises(lowtide.InputError, match="chain-20s0 has no addresses"):
        written(tmp_path, graph, plan, "snapshot")
    rows = list(csv.DictReader(written(tmp_path, graph, plan, "csv").open()))
    assert rows and "offset" not in rows[0]


def test_a_trace_has_each_action_at_its_time(shown, tmp_path):
    graph, plan = shown
    events = json.loads(written(tmp_path, graph, plan, "trace").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    moments = _core.timeline(graph, plan)
    assert [(event["ts"], event["dur"]) for event in slices] == [
        pytest.approx((begin, end - begin)) for action, (_, begin, end)
        in zip(plan.actions, moments) if action[0] != "free"]
    lanes = {event["tid"]: event["args"]["name"] for event in events
             if event["name"] == "thread_name"}
    assert {event["tid"] for event in slices} == set(lanes)
    again = [event for event in slices if lanes[event["tid"]] == "run again"]
    explained = _core.explanation(graph, plan)
    assert sum(event["dur"] for event in again) == pytest.approx(
        sum(op.cost for op in explained.again))
    if plan.slower_bytes:
        assert {"copies out", "copies in"} <= set(lanes.values())
    assert all(set(event) >= {"ph", "pid", "name"} for event in events)


def test_counters_of_a_trace_are_the_replays(shown, tmp_path):
    graph, plan = shown
    events = json.loads(written(tmp_path, graph, plan, "trace").read_text())["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    whole = [event["args"]["bytes"] for event in counters if event["name"] == "bytes in use"]
    assert whole == list(lowtide.replay(graph, plan).memory)
    held = {event["name"] for event in counters} - {"bytes in use", "budget"}
    assert held >= {life.content.value for life in lives(graph, plan)}
    last = {name: [event for event in counters if event["name"] == name][-1]["args"]["bytes"]
            for name in held}
    residents = _core.explanation(graph, plan).resident_bytes
    results = sum(life.bytes for life in lives(graph, plan) if life.end == len(plan.actions))
    before_the_end = {name: [event["args"]["bytes"] for event in counters
                             if event["name"] == name] for name in held}
    assert sum(last.values()) == residents
    assert sum(max(sizes) for sizes in before_the_end.values()) >= plan.peak_bytes - results


def test_collectives_have_a_lane():
    tensors = [{"name": "shard", "bytes": 64, "kind": "resident", "role": "parameter"},
               *({"name": f"value{n}", "bytes": 64, "kind": "value"} for n in range(3))]
    types = ["lowtide::gather_start", "lowtide::gather_wait", "aten::relu"]
    ops = [{"name": f"op{n}", "type": types[n], "inputs": [n], "outputs": [n + 1], "cost": 2.0}
           for n in range(3)]
    graph = lowtide.Graph.parse(json.dumps(
        {"format": "lowtide-graph", "version": 1, "name": "ranks", "cost_unit": "us",
         "tensors": tensors, "ops": ops, "outputs": [3]}))
    plan = lowtide.keep_all(graph)
    found = schedule(graph, plan, _core.timeline(graph, plan))
    assert [bar.name for bar in found["network"]] == ["op0", "op1"]
    assert [bar.name for bar in found["forward"]] == ["op2"]


def dot_of(path):
    pydot = pytest.importorskip("pydot")
    graph, = pydot.graph_from_dot_data(path.read_text())
    return graph


def nodes_in(graph):
    """By name, in all clusters."""
    found = {node.get_name(): node for node in graph.get_nodes()
             if node.get_name() not in ("node", "edge", "graph", '"\\n"')}
    for inner in graph.get_subgraphs():
        found |= nodes_in(inner)
    return found


@pytest.mark.parametrize("make, shape", [(functools.partial(moving, share=0.5), "cylinder"),
                                         (functools.partial(planned, budget="60%"),
                                          "doubleoctagon")])
def test_a_dot_file_says_what_the_plan_does(make, shape, tmp_path):
    document = json.loads(graph_of("chain-29s3").format())
    for number, op in enumerate(document["ops"]):
        op["phase"] = "forward" if 2 * number < len(document["ops"]) else "backward"
    graph = lowtide.Graph.parse(json.dumps(document))
    plan = make(graph)
    parsed = dot_of(written(tmp_path, graph, plan, "dot"))
    nodes = nodes_in(parsed)
    explained = _core.explanation(graph, plan)
    by_shape = {}
    for name, node in nodes.items():
        if name.startswith("op0_"):
            by_shape.setdefault(node.get("shape"), set()).add(int(name.removeprefix("op0_")))
    assert sum(map(len, by_shape.values())) == len(graph.ops)
    again = {op.op for op in explained.again}
    assert by_shape.get("doubleoctagon", set()) == again
    assert all(f"runs {op.runs} times" in nodes[f"op0_{op.op}"].get("label")
               for op in explained.again)
    makers = {tensor: number for number, op in enumerate(graph.ops) for tensor in op.outputs}
    moved = {makers[one.storage] for one in explained.moved if one.storage in makers}
    assert by_shape.get("cylinder", set()) == moved - again
    assert by_shape[shape] and by_shape["box3d"]
    assert not by_shape["box3d"] & (moved | again)
    colours = {shape: {nodes[f"op0_{op}"].get("fillcolor") for op in ops}
               for shape, ops in by_shape.items()}
    assert all(len(one) == 1 for one in colours.values())  # colours repeat what shapes say
    edges = {(edge.get_source(), edge.get_destination()) for edge in parsed.get_edges()}
    reads = {(makers[tensor], number, tensor, graph.ops[makers[tensor]].phase == op.phase)
             for number, op in enumerate(graph.ops) for tensor in op.inputs if tensor in makers}
    assert edges == {(f"op0_{source}" if is_of_phase else f"note0_{reader}_{tensor}",
                      f"op0_{reader}") for source, reader, tensor, is_of_phase in reads}
    across = {(reader, tensor, source) for source, reader, tensor, is_of_phase in reads
              if not is_of_phase}
    assert across
    for reader, tensor, source in across:  # what is read of the other phase, as it was made there
        note = nodes[f"note0_{reader}_{tensor}"]
        assert note.get("shape") == "note"
        assert note.get("fillcolor") == nodes[f"op0_{source}"].get("fillcolor")
        assert note.get("label") == f'"{graph.tensors[tensor].name}\\nforward"'
    legend, = (one for one in parsed.get_subgraphs() if one.get_name() == "cluster_legend")
    assert {node.get("shape") for node in legend.get_nodes()} == {"box3d", "doubleoctagon",
                                                                   "cylinder", "box"}


def test_clusters_are_the_modules(tmp_path):
    graph = graph_with_a_write_in_place()
    document = json.loads(graph.format())
    for op, name in zip(document["ops"], ("blocks.0.attn.mul", "blocks.1.add", "head")):
        op["name"] = name
    graph = lowtide.Graph.parse(json.dumps(document))
    parsed = dot_of(written(tmp_path, graph, planned(graph, "100%"), "dot"))

    def tree(one):
        nodes = [node.get_name() for node in one.get_nodes()]
        return {**{inner.get("label").strip('"'): tree(inner) for inner in one.get_subgraphs()},
                **dict.fromkeys(nodes)}

    outer, = (one for one in parsed.get_subgraphs() if one.get_name() == "cluster_0")
    assert tree(outer) == {"blocks": {"0": {"attn": {"op0_0": None}}, "1": {"op0_1": None}},
                           "op0_2": None}


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("name", ["in_place", "hostile"])
def test_graphviz_draws_it(name, tmp_path):
    path = written(tmp_path, *case(name), "dot")
    done = subprocess.run(["dot", "-Tsvg", path], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and "<svg" in done.stdout


def test_deep_paths_of_modules_are_no_recursion(tmp_path):
    graph = graph_with_a_write_in_place()
    document = json.loads(graph.format())
    document["ops"][0]["name"] = ".".join(["a"] * 5000)
    graph = lowtide.Graph.parse(json.dumps(document))
    assert "a.a.a" in written(tmp_path, graph, planned(graph, "100%"), "dot").read_text()


def test_a_csv_has_all_buffers_where_they_lie(shown, tmp_path):
    graph, plan = shown
    path = written(tmp_path, graph, plan, "csv")
    rows = list(csv.DictReader(path.open()))
    known = sorted((life.begin, life.end, life.bytes, life.offset) for life in lives(graph, plan))
    assert sorted(tuple(int(row[key]) for key in ("lower", "upper", "size", "offset"))
                  for row in rows) == known
    assert len({row["id"] for row in rows}) == len(rows)
    program = ROOT / "build" / "lowtide"
    if program.exists():  # it reads offsets as fixed, and refuses buffers that overlap
        done = subprocess.run([program, "layout", path, "--json", "--time-limit", "1"],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["height"] == max(row[2] + row[3] for row in known)


@pytest.mark.parametrize("kind", NAMES)
def test_the_command_writes_by_suffix_or_format(kind, tmp_path):
    graph, plan = case("in_place")
    graph.save(tmp_path / "graph.json")
    plan.save(tmp_path / "the-plan.json")
    by_function = written(tmp_path, graph, plan, kind).read_bytes()

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "lowtide", "report", tmp_path / "graph.json",
             tmp_path / "the-plan.json", *arguments], capture_output=True, text=True, cwd=ROOT)

    for output, *more in ((f"by-suffix-{NAMES[kind]}",), ("by-format", "--format", kind)):
        done = run("-o", tmp_path / output, *more)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / output).read_bytes() == by_function
    refused = run("-o", tmp_path / NAMES[kind], "--json")
    assert refused.returncode == 2 and "--json prints what a page shows" in refused.stderr
    lost = run("-o", tmp_path / "no" / NAMES[kind])
    assert lost.returncode == 2 and "cannot be written" in lost.stderr


@pytest.mark.parametrize("arguments, words", [
    ({"format": "svg"}, "format must be page, trace, snapshot, dot, csv"),
    ({"format": "dot", "run": "trace.json"}, "are for a page"),
])
def test_what_does_not_fit_a_format_is_refused(arguments, words, tmp_path):
    with pytest.raises(lowtide.InputError, match=words):
        lowtide.report(case("in_place")[0], tmp_path / "plan", case("in_place")[1], **arguments)


def test_a_plan_of_another_graph_is_refused(tmp_path):
    with pytest.raises(lowtide.InputError, match="breaks the rule"):
        written(tmp_path, graph_of("chain-20s0"), case("in_place")[1], "dot")


class Squares(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            x = x * x.tanh()  # the line that memory_viz shows
        return x


LINE = next(number for number, line in enumerate(pathlib.Path(__file__).read_text().splitlines(), 1)
            if line.endswith("# the line that memory_viz shows"))


@pytest.fixture(scope="module")
def wrapped():
    return lowtide.wrap(Squares(), torch.randn(64, 64), budget="1MiB", time_limit=0.3, cache=False)


def test_a_module_is_written_with_its_lines(wrapped, tmp_path):
    for name in NAMES.values():
        assert lowtide.report(wrapped, tmp_path / name).stat().st_size > 0
    snapshot = snapshot_of(tmp_path / "plan.pickle")
    frames = {(pathlib.Path(frame["filename"]).name, frame["line"], frame["name"])
              for event in snapshot["device_traces"][0] for frame in event["frames"]}
    assert (pathlib.Path(__file__).name, LINE, "forward") in frames
    slices = [event for event in json.loads((tmp_path / "plan.json").read_text())["traceEvents"]
              if event["ph"] == "X"]
    assert any(f"{pathlib.Path(__file__).name}:{LINE}, in forward: " in event["args"]["line"]
               for event in slices)
    layers = {event["args"]["layer"] for event in slices}
    assert {f"layers.{number}" for number in range(4)} <= layers


def test_several_graphs_are_several_devices_and_processes(tmp_path):
    shown = [ShownPlan.of_files(*case("in_place")), ShownPlan.of_files(*case("hostile"))]
    snapshot = snapshot_of(write_plans(shown, tmp_path / "plan.pickle", "snapshot"))
    peaks = [peak_of(snapshot, device) for device in range(2)]
    assert peaks == [plan.plan.peak_bytes for plan in shown]
    events = json.loads(write_plans(shown, tmp_path / "plan.json", "trace").read_text())
    names = {event["pid"]: event["args"]["name"] for event in events["traceEvents"]
             if event["name"] == "process_name"}
    assert names == {1: shown[0].graph.name, 2: shown[1].graph.name}
    parsed = dot_of(write_plans(shown, tmp_path / "plan.dot", "dot"))
    assert {name.partition("_")[0] for name in nodes_in(parsed)} == {
        "legend", "op0", "op1", "note1"}
    with pytest.raises(lowtide.InputError, match="of one graph, and there are 2"):
        write_plans(shown, tmp_path / "plan.csv", "csv")
    assert not (tmp_path / "plan.csv").exists()


def test_of_a_module_a_step_is_for_a_page(wrapped, tmp_path):
    with pytest.raises(lowtide.InputError, match="are for a page"):
        lowtide.report(wrapped, tmp_path / "plan.dot", step=lambda: None)
