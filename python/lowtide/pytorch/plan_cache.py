"""Plans that were made before, found again by what they were made for."""

from __future__ import annotations

import hashlib
import pathlib

from .. import Error, Graph, Plan, _runtime, verify


def cache_folder() -> pathlib.Path:
    """Where plans are kept: beside the profiles of this machine's devices."""
    return _runtime.profile_path().parent / "plans"


def cache_key(graph: Graph, budget_bytes: int, strategy: str | None, options, time_limit) -> str:
    """A hash of all that decides a plan. The graph carries its costs and their device."""
    digest = hashlib.sha256()
    for part in (graph.format(), budget_bytes, strategy, sorted(dict(options).items()), time_limit):
        digest.update(str(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def find(key: str, graph: Graph, budget_bytes: int) -> Plan | None:
    """The plan that was kept under the key, if it still holds for this graph and budget."""
    path = cache_folder() / f"{key}.json"
    if not path.exists():
        return None
    try:
        plan = Plan.load(path)
    except Error:
        return None  # cut short or written by another version: it is made anew
    fits = plan.arena_bytes is not None and plan.arena_bytes <= budget_bytes
    return plan if fits and verify(graph, plan, budget_bytes) is None else None


def keep(key: str, plan: Plan) -> None:
    """Keeps a plan. A folder that cannot be written does no harm: the plan is made again."""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        plan.save(cache_folder() / f"{key}.json")
    except (OSError, Error):
        return
