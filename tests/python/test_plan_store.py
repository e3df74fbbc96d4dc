"""Plans that were found stay answers: more memory or another start never gives a worse one."""

import os
import pathlib
import signal
import stat
import subprocess
import sys

import lowtide
import pytest
import torch
from lowtide.pytorch.plans.plan_store import PlanStore
from lowtide.pytorch.wrap import session_of
from torch import nn
from wrap_cases import built

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


def layers():
    return nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.Tanh())])


@pytest.fixture
def graph():
    wrapped = lowtide.wrap(built(layers), torch.randn(512, 64), time_limit=1, cache=False)
    return session_of(wrapped).regions[0].priced.graph


def store_of(graph):
    return PlanStore(graph, None, {})


def plans_of(graph, *shares):
    return [lowtide.plan(graph, share, time_limit=1).plan for share in shares]


def test_a_budget_is_answered_by_the_cheapest_plan_that_fits(graph):
    small, large = plans_of(graph, "75%", "90%")
    assert small.cost > large.cost and small.arena_bytes < large.arena_bytes
    store = store_of(graph)
    assert store.cheapest(1 << 40) is None
    store.keep(small)
    assert store.cheapest(1 << 40).cost == small.cost
    assert store.cheapest(small.arena_bytes - 1) is None
    store.keep(large)
    assert store_of(graph).cheapest(1 << 40).cost == large.cost
    assert store.cheapest(large.arena_bytes - 1).cost == small.cost


def test_only_plans_that_none_beats_are_kept(graph):
    small, large = plans_of(graph, "75%", "90%")
    store = store_of(graph)
    worse = lowtide.plan(graph, large.arena_bytes, "chen-sqrt").plan
    for plan in (worse, small, large):
        store.keep(plan)
    for budget in (small.arena_bytes, large.arena_bytes, 1 << 40):
        kept = store.cheapest(budget)
        assert all(kept.cost <= plan.cost for plan in (worse, small, large)
                   if plan.arena_bytes <= budget)


@pytest.mark.parametrize("spoil", [
    lambda path: path.write_text("{"),
    # As if what plans need had been counted otherwise.
    lambda path: path.rename(path.with_name("1-" + path.name.partition("-")[2]))])
def test_a_plan_that_holds_no_more_makes_room_for_others(graph, spoil, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    [found], store = plans_of(graph, "75%"), store_of(graph)
    store.keep(found)
    store.note_search(1 << 40, 2.0)
    spoil(next(store._folder.glob("*.json")))
    assert store.cheapest(1 << 40) is None
    assert store.searched_seconds(1 << 40) is None
    store.keep(found)
    assert store.cheapest(1 << 40).cost == found.cost


def test_a_search_that_the_clock_cut_is_not_the_last_one(graph):
    store = store_of(graph)
    assert store.searched_seconds(7) is None
    store.note_search(7, 0.0)
    assert store_of(graph).searched_seconds(7) == 0.0
    store.note_search(7, 2.0)
    store.note_search(7, 1.0)
    assert store_of(graph).searched_seconds(7) == 2.0


def test_what_a_smaller_budget_was_given_is_given_to_a_larger_one():
    x = torch.randn(512, 64)
    costs = []
    for share in ("80%", "85%", "90%", "95%"):
        wrapped = lowtide.wrap(built(layers), x, budget=share, optimizer="none", time_limit=0.5)
        region = session_of(wrapped).regions[0]
        costs.append(session_of(wrapped).plan_for(region).cost)
    assert costs == sorted(costs, reverse=True)


def test_refresh_plans_anew():
    said = []
    x = torch.randn(512, 64)
    for cache in (True, True, "refresh"):
        said.append([])
        lowtide.wrap(built(layers), x, budget="85%", optimizer="none", time_limit=1, cache=cache,
                     report=said[-1].append)
    planned = [any(line.startswith("planning") for line in lines) for lines in said]
    assert not planned[1] and planned[2]


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "lowtide"


def test_what_a_killed_process_left_is_removed_when_it_is_old(graph, empty_cache):
    small, = plans_of(graph, "75%")
    store_of(graph).keep(small)
    folder = next((empty_cache / "plans").iterdir())
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_IT_WRITES, folder])
    assert killed.returncode == -signal.SIGKILL
    kept = set(folder.glob("*.json"))
    partial, = set(folder.iterdir()) - kept
    store_of(graph).note_search(7, 1.0)
    assert partial.exists()  # as long as somebody may be writing it
    os.utime(partial, (partial.stat().st_mtime - 7200,) * 2)
    store_of(graph).note_search(7, 2.0)
    assert set(folder.iterdir()) == kept | {folder / "searches"}


KILLED_WHILE_IT_WRITES = """
import os, pathlib, signal, sys
from lowtide.pytorch.common import private_folder
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
private_folder.write_private([pathlib.Path(sys.argv[1])], "plan.json", "half of a pl")
"""


def test_plans_are_kept_for_their_owner_alone(graph, empty_cache):
    small, = plans_of(graph, "75%")
    store_of(graph).keep(small)
    store_of(graph).note_search(7, 1.0)
    found = [empty_cache, *empty_cache.rglob("*")]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in found}
    assert modes == {0o700, 0o600} and len(found) == 5


@pytest.mark.parametrize("level", [0, 1, 2])
def test_plans_that_another_user_may_have_written_are_not_used(graph, empty_cache, level):
    small, = plans_of(graph, "75%")
    store_of(graph).keep(small)
    store_of(graph).note_search(7, 1.0)
    folder = [empty_cache, empty_cache / "plans", next((empty_cache / "plans").iterdir())][level]
    folder.chmod(0o770)
    assert store_of(graph).cheapest(1 << 40) is None
    assert store_of(graph).searched_seconds(7) is None
    store_of(graph).note_search(7, 2.0)
    folder.chmod(0o700)
    assert store_of(graph).cheapest(1 << 40).cost == small.cost
    assert store_of(graph).searched_seconds(7) == 1.0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")
def test_a_folder_of_another_user_is_not_used(graph, empty_cache):
    small, = plans_of(graph, "75%")
    store_of(graph).keep(small)
    os.chown(empty_cache, 1, -1)
    assert store_of(graph).cheapest(1 << 40) is None


def cut(path):
    content = path.read_bytes()
    path.write_bytes(content[:len(content) // 2])


def emptied(path):
    path.write_bytes(b"")


def flipped(path):
    content = bytearray(path.read_bytes())
    for at in range(1, len(content), 97):
        content[at] ^= 1 << at % 8
    path.write_bytes(content)


def nested(path):
    path.write_text("[" * 100_000)


def a_loop_of_links(path):
    path.unlink()
    path.symlink_to(path)


@pytest.mark.parametrize("damage", [cut, emptied, flipped, nested, a_loop_of_links,
                                    pathlib.Path.unlink])
def test_damaged_plans_are_found_anew(graph, empty_cache, damage):
    small, = plans_of(graph, "75%")
    store_of(graph).keep(small)
    store_of(graph).note_search(7, 1.0)
    for path in (empty_cache / "plans").glob("*/*"):
        damage(path)
    assert store_of(graph).cheapest(1 << 40) is None
    assert store_of(graph).searched_seconds(7) is None


def test_a_cache_whose_name_is_no_utf8_keeps_plans(graph, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    small, = plans_of(graph, "75%")
    store_of(graph).keep(small)
    assert store_of(graph).cheapest(1 << 40).cost == small.cost


def test_a_cache_that_cannot_be_written_is_no_obstacle(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    wrapped = lowtide.wrap(built(layers), torch.randn(512, 64), budget="85%", time_limit=0.3)
    wrapped(torch.randn(512, 64)).sum().backward()
    assert wrapped.memory.measured_peak
