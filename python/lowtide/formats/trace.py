"""The schedule of plans as a trace, which https://ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from .. import format_bytes, replay
from ..page.lives import Content
from ..page.schedule import AGAIN, LANES
from .shown_plan import ShownPlan


def planned_trace(shown: Sequence[ShownPlan]) -> bytes:
    """A process for each plan, which begins at 0: a thread for each lane, and counters of memory in
    all, of each of its contents, and of the budget. Times are predicted."""
    events = [event for number, plan in enumerate(shown, 1) for event in _events(number, plan)]
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, allow_nan=False).encode()


def _events(process: int, shown: ShownPlan) -> Iterator[dict]:
    for event in (*_names(shown), *_slices(shown), *_counters(shown)):
        yield {**event, "pid": process}


def _names(shown: ShownPlan) -> Iterator[dict]:
    yield {"ph": "M", "name": "process_name", "args": {"name": shown.graph.name}}
    used = set(shown.lanes)
    for thread, lane in enumerate(LANES, 1):
        if lane in used:
            yield {"ph": "M", "name": "thread_name", "tid": thread, "args": {"name": lane}}
            yield {"ph": "M", "name": "thread_sort_index", "tid": thread,
                   "args": {"sort_index": thread}}


def _slices(shown: ShownPlan) -> Iterator[dict]:
    threads = {lane: number for number, lane in enumerate(LANES, 1)}
    for action, lane, (_, begin, end) in zip(shown.plan.actions, shown.lanes, shown.moments):
        if not lane:
            continue
        verb, index = action[0], action[1]
        slice_ = {"ph": "X", "ts": begin, "dur": end - begin, "tid": threads[lane]}
        if lane == AGAIN:
            slice_["cname"] = "terrible"
        if verb == "run":
            yield {**slice_, "name": shown.ops[index].name, "cat": shown.ops[index].phase,
                   "args": _about_op(shown, index)}
        else:
            tensor = shown.tensors[index]
            yield {**slice_, "name": f"{verb} {tensor.name}", "cat": "move",
                   "args": {"bytes": tensor.bytes}}


def _about_op(shown: ShownPlan, index: int) -> dict:
    op, origin = shown.ops[index], shown.origins[index]
    made = sum(shown.tensors[tensor].bytes for tensor in op.outputs)
    return {"op": index, "type": op.type, "makes": format_bytes(made),
            "workspace": format_bytes(op.workspace_bytes), "layer": origin.layer,
            "line": origin.line}


def _counters(shown: ShownPlan) -> Iterator[dict]:
    memory = replay(shown.graph, shown.plan).memory
    for at, size in zip(shown.reached, memory):
        yield _counter("bytes in use", at, size)
    for content, size in shown.residents.items():
        if size:
            yield _counter(content.value, 0.0, size)
            yield _counter(content.value, shown.reached[-1], size)
    for content in Content:
        yield from _counters_of(shown, content)
    if shown.plan.budget_bytes is not None:
        yield _counter("budget", 0.0, shown.plan.budget_bytes)
        yield _counter("budget", shown.reached[-1], shown.plan.budget_bytes)


def _counters_of(shown: ShownPlan, content: Content) -> Iterator[dict]:
    """Where the bytes of a content change."""
    changes: dict[int, int] = {}
    for life in shown.lives:
        if life.content is content:
            changes[life.begin] = changes.get(life.begin, 0) + life.bytes
            changes[life.end] = changes.get(life.end, 0) - life.bytes
    now = 0
    for action in sorted(changes):
        now += changes[action]
        yield _counter(content.value, shown.reached[action], now)


def _counter(name: str, at: float, size: int) -> dict:
    return {"ph": "C", "name": name, "ts": at, "args": {"bytes": size}}
