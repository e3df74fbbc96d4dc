"""Plans, graphs and pages that the tests of reports share."""

import json
import pathlib
import re

import lowtide
from lowtide import _core
from lowtide.page import report_of_graph
from lowtide.page.lives import lives

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: A name that would end a script, an attribute or a text if a page took it for more than a name.
HOSTILE = "</script><b onclick=\"alert(1)\">'&amp;%{x}\u2028"


def graph_of(name):
    return lowtide.Graph.load(ROOT / "data" / "graphs" / f"{name}.json")


def planned(graph, budget, strategy=None, seconds=1.0):
    found = lowtide.plan(graph, budget, strategy, time_limit=seconds)
    assert found.plan is not None, found.message
    return found.plan


def moving(graph, share):
    """A plan that moves values and residents, and runs ops again where that is cheaper."""
    most = lowtide.replay(graph, lowtide.keep_all(graph)).peak_bytes
    speed = ((1e-5, 2e9), (1e-5, 2e9), False)
    found = _core.plan_moving(graph, int(share * most), None, (speed, None), None, 2.0, True)
    assert found.plan is not None and found.plan.slower_bytes, found.message
    return found.plan


def hostile_graph():
    """A chain of which every name is hostile."""
    tensors = [{"name": HOSTILE, "bytes": 64, "kind": "resident", "role": "parameter"}]
    ops = []
    for number in range(8):
        tensors.append({"name": f"{HOSTILE}{number}", "bytes": 4096, "kind": "value"})
        inputs = [number] if number < 4 else [number, 8 - number]
        ops.append({"name": f"{HOSTILE}.{HOSTILE}{number}", "type": HOSTILE, "inputs": inputs,
                    "outputs": [number + 1], "cost": 10.0, "workspace_bytes": 128,
                    "phase": "forward" if number < 4 else "backward"})
    return lowtide.Graph.parse(json.dumps(
        {"format": "lowtide-graph", "version": 1, "name": HOSTILE, "cost_unit": "us",
         "tensors": tensors, "ops": ops, "outputs": [8]}))


def graph_with_a_write_in_place():
    """Three ops, of which the second may write its result over its input."""
    tensors = [{"name": "batch", "bytes": 0, "kind": "resident", "role": "input"},
               *({"name": name, "bytes": 128, "kind": "value"}
                 for name in ("first", "over", "last"))]
    ops = [{"name": f"op{number}", "type": "test::op", "inputs": [number],
            "outputs": [number + 1], "cost": 1} for number in range(3)]
    ops[1]["inplace"] = [[0, 0]]
    return lowtide.Graph.parse(json.dumps(
        {"format": "lowtide-graph", "version": 1, "name": "in-place", "cost_unit": "us",
         "tensors": tensors, "ops": ops, "outputs": [3]}))


def long_graph(forward_ops):
    """A forward and a backward pass of a chain, 1000 layers of equal length, with workspaces."""
    tensors = [{"name": "batch", "bytes": 1024, "kind": "resident", "role": "input"}]
    ops = []
    for number in range(2 * forward_ops):
        is_forward = number < forward_ops
        tensors.append({"name": f"value{number}", "bytes": 1024 + number % 7 * 256,
                        "kind": "value"})
        inputs = [number] if is_forward else [number, 2 * forward_ops - number]
        layer = min(number, 2 * forward_ops - 1 - number) * 1000 // forward_ops
        ops.append({"name": f"blocks.{layer}.op{number}", "type": "test::op", "inputs": inputs,
                    "outputs": [number + 1], "cost": 1.0 + number % 3, "workspace_bytes": 512,
                    "phase": "forward" if is_forward else "backward"})
    return lowtide.Graph.parse(json.dumps(
        {"format": "lowtide-graph", "version": 1, "name": "long", "cost_unit": "us",
         "tensors": tensors, "ops": ops, "outputs": [2 * forward_ops]}))


def document_of(page):
    """What a page shows, as it lies in the file."""
    text = page.read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(data[1])


def size_without_library(page):
    """In bytes."""
    library, = (block for block in re.findall(r"<script>(.*?)</script>", page.read_text(),
                                              re.DOTALL) if "plotly.js v" in block)
    return page.stat().st_size - len(library.encode())


def require_bands_of(graph, plan):
    """They add up to the replay's memory, and the highest moment is the planned peak."""
    document = report_of_graph(graph, plan).document
    json.dumps(document, allow_nan=False)  # what JavaScript reads has no other numbers
    memory = document["memory"]
    replayed = lowtide.replay(graph, plan)
    totals = [sum(band["bytes"][i] for band in memory["bands"])
              for i in range(len(memory["actions"]))]
    assert totals == [replayed.memory[action] for action in memory["actions"]]
    assert max(totals, default=plan.peak_bytes) == plan.peak_bytes
    assert all(size >= 0 for band in memory["bands"] for size in band["bytes"])


def require_addresses_of(graph, plan):
    """No two values that are in memory together share a byte, and all lie within the arena."""
    found = lives(graph, plan)
    assert all(life.offset is not None for life in found)
    residents = _core.explanation(graph, plan).resident_bytes
    open_lives = []
    for life in sorted(found, key=lambda life: life.begin):
        open_lives = [other for other in open_lives if other.end > life.begin]
        end = life.offset + life.bytes
        assert residents + end <= plan.arena_bytes
        assert not [other for other in open_lives
                    if other.offset < end and life.offset < other.offset + other.bytes]
        open_lives.append(life)
