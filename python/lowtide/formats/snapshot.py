"""Plans as a snapshot of PyTorch's CUDA allocator, which https://pytorch.org/memory_viz reads."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

from .. import InputError
from ..page.lives import Life
from .shown_plan import ShownPlan

#: Above all addresses that would be taken for none.
_FIRST_ADDRESS = 1 << 32
#: The last one that the viewer reads.
_PROTOCOL = 4


def snapshot_pickle(shown: Sequence[ShownPlan]) -> bytes:
    """A device for each plan, with one segment, its arena: the trace of its device is the plan, and
    its blocks are what is there in the end. Times are predicted. Raises InputError for a plan
    without addresses."""
    for plan in shown:
        if plan.plan.arena_bytes is None:
            raise InputError(f"the plan of {plan.graph.name} has no addresses, and a snapshot is "
                             f"made of them: give a plan that lowtide plan wrote, or a module that "
                             f"is wrapped with mode=\"executor\", as Inductor chooses those of "
                             f"its code; a trace, a dot file and a CSV need none")
    document = {"segments": [_segment(device, plan) for device, plan in enumerate(shown)],
                "device_traces": [list(_events(plan)) for plan in shown]}
    return pickle.dumps(document, protocol=_PROTOCOL)


def _address(shown: ShownPlan, life: Life) -> int:
    return _FIRST_ADDRESS + shown.explained.resident_bytes + life.offset


def _events(shown: ShownPlan) -> Iterator[dict]:
    """What ends at an action is freed before anything begins there: it may be written over."""
    last = len(shown.plan.actions)
    changes = [(life.end, 0, life) for life in shown.lives if life.end < last]
    changes += [(life.begin, 1, life) for life in shown.lives]
    for at, begins, life in sorted(changes, key=lambda change: change[:2]):
        for action in ("alloc",) if begins else ("free_requested", "free_completed"):
            yield {"action": action, "addr": _address(shown, life), "size": life.bytes, "stream": 0,
                   "time_us": int(shown.reached[at]), "frames": _frames(shown, life)}


def _frames(shown: ShownPlan, life: Life) -> list[dict]:
    """The value, and below it the op that made it and the user's line, where it is known."""
    frames = [_frame(shown.graph.name, life.begin, f"{shown.name_of(life)}: {life.content.value}")]
    if life.op is None:
        return frames
    op, origin = shown.ops[life.op], shown.origins[life.op]
    frames.append(_frame(origin.layer or shown.graph.name, life.op,
                         f"{op.name} ({op.type}, {op.phase})"))
    if origin.source is not None:
        source = origin.source
        frames.append(_frame(source.file, source.number, source.function))
    return frames


def _frame(file: str, line: int, name: str) -> dict:
    return {"filename": file, "line": line, "name": name}


def _segment(device: int, shown: ShownPlan) -> dict:
    blocks = list(_blocks(shown))
    used = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    size = sum(block["size"] for block in blocks)
    return {"device": device, "address": _FIRST_ADDRESS, "total_size": size,
            "allocated_size": used, "active_size": used, "requested_size": used, "stream": 0,
            "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
            "frames": [], "blocks": blocks}


def _blocks(shown: ShownPlan) -> Iterator[dict]:
    """From the first address of the arena to its last, the gaps too."""
    behind = _FIRST_ADDRESS
    for address, size, frames in _blocks_in_the_end(shown):
        if address > behind:
            yield _block(behind, address - behind, "inactive", [])
        yield _block(address, size, "active_allocated", frames)
        behind = address + size
    end = _FIRST_ADDRESS + shown.plan.arena_bytes
    if end > behind:
        yield _block(behind, end - behind, "inactive", [])


def _blocks_in_the_end(shown: ShownPlan) -> Iterator[tuple[int, int, list[dict]]]:
    address = _FIRST_ADDRESS
    for content, size in shown.residents.items():
        if size:
            yield address, size, [_frame(shown.graph.name, 0, content.value)]
            address += size
    last = len(shown.plan.actions)
    lives = [life for life in shown.lives if life.end == last]
    for life in sorted(lives, key=lambda life: life.offset):
        yield _address(shown, life), life.bytes, _frames(shown, life)


def _block(address: int, size: int, state: str, frames: list[dict]) -> dict:
    requested = size if state == "active_allocated" else 0
    return {"address": address, "size": size, "requested_size": requested, "state": state,
            "frames": frames}
