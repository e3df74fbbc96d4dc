"""The store of plans found before for one graph, in this run or an earlier one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
from collections.abc import Iterator

from ... import Error, Graph, Plan, _runtime, verify
from ..common.private_folder import is_private, write_private
from .needed_bytes import needed_bytes

#: The file that notes them.
_SEARCHES = "searches"


class PlanStore:
    """All plans of a graph that no other one beats: less cost in no more memory.

    A budget is answered by the cheapest of them that fits, whichever budget it was looked for, so
    that more memory never gives a worse plan. A search that ended by itself is noted, so that it is
    not made again. ``strategy`` and ``options``: as given to ``lowtide.plan``, and ``slower``: the
    slower memory that plans may use; others have a store of their own. A folder that cannot be
    written, or in which another user may write, does no harm: plans are found anew.
    """

    def __init__(self, graph: Graph, strategy: str | None, options, slower=None):
        self._graph = graph
        digest = hashlib.sha256()
        parts = [graph.format(), strategy, sorted(dict(options).items())]
        for part in parts if slower is None else [*parts, slower]:
            digest.update(str(part).encode())
            digest.update(b"\0")
        self._folder = _plans_folder() / digest.hexdigest()

    def cheapest(self, budget_bytes: int) -> Plan | None:
        """The cheapest plan that fits."""
        for _, needed, path in sorted(self._entries()):
            if needed <= budget_bytes:
                plan = self._load(path, needed)
                if plan is not None:
                    return plan
                self._forget(path)
        return None

    def keep(self, plan: Plan) -> None:
        """Keeps a plan with addresses, and forgets those that it beats."""
        if plan.arena_bytes is None:
            return
        others, mine = list(self._entries()), needed_bytes(self._graph, plan)
        if any(cost <= plan.cost and needed <= mine for cost, needed, _ in others):
            return
        try:
            self._write(f"{mine}-{plan.cost!r}.json", plan.format())
            for cost, needed, path in others:
                if cost >= plan.cost and needed >= mine:
                    path.unlink(missing_ok=True)
        except OSError:
            return

    def searched_seconds(self, budget_bytes: int) -> float | None:
        """Of the searches for this budget that did all their work, the longest time limit; 0 when
        the clock cut all of them, None when there was none."""
        return self._searches().get(str(budget_bytes))

    def note_search(self, budget_bytes: int, seconds: float) -> None:
        """A search for this budget did all the work of this time limit; 0: the clock cut it."""
        known = self._searches()
        known[str(budget_bytes)] = max(seconds, known.get(str(budget_bytes), 0.0))
        with contextlib.suppress(OSError):
            self._write(_SEARCHES, json.dumps(known))

    def _forget(self, path: pathlib.Path) -> None:
        """A plan that is none for this version of the program. It was an answer of the searches
        that are noted, so that they count no more; and as long as it is there, no plan is kept that
        it seems to beat."""
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            (self._folder / _SEARCHES).unlink(missing_ok=True)

    def _searches(self) -> dict[str, float]:
        return _read_numbers(self._folder / _SEARCHES) if self._is_ours() else {}

    def _is_ours(self) -> bool:
        """Whether no other user can have written here."""
        return all(map(is_private, self._folders()))

    def _write(self, name: str, text: str) -> None:
        write_private(self._folders(), name, text)

    def _folders(self) -> tuple[pathlib.Path, ...]:
        """From the outermost one."""
        return self._folder.parent.parent, self._folder.parent, self._folder

    def _entries(self) -> Iterator[tuple[float, int, pathlib.Path]]:
        """Cost, needed bytes, and file of each plan."""
        if not self._is_ours():
            return
        for path in self._folder.glob("*.json"):
            needed, _, cost = path.stem.partition("-")
            try:
                yield float(cost), int(needed), path
            except ValueError:
                continue  # a file of somebody else's

    def _load(self, path: pathlib.Path, needed: int) -> Plan | None:
        try:
            plan = Plan.load(path)
        except Error:
            return None  # cut short, deleted meanwhile, or written by another version
        if plan.arena_bytes is None or verify(self._graph, plan, needed) is not None:
            return None
        return plan if needed_bytes(self._graph, plan) <= needed else None


def _plans_folder() -> pathlib.Path:
    """Beside the profiles of this machine's devices."""
    return _runtime.profile_path().parent / "plans"


def _read_numbers(path: pathlib.Path) -> dict[str, float]:
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {key: value for key, value in known.items() if isinstance(value, (int, float))}
