#!/usr/bin/env python3
"""Replay a lowtide-plan on its lowtide-graph; print cost and memory, or the first broken rule.

usage: check_plan.py GRAPH.json PLAN.json [--budget BYTES]
Exit 0: the plan is valid and within the budget; 1: it is not. Needs only Python's own library, and
nothing of the rest of this project: it is a second reading of docs/reference/graph-format.md and
docs/reference/plan-format.md.
"""
import argparse
import json
import sys

BOUNDARY = "lowtide::boundary"


class Broken(Exception):
    """A rule of docs/reference/graph-format.md or plan-format.md that the plan breaks."""


class Replay:
    """The machine that a plan runs on: which storages are live, their bytes, where they lie."""

    def __init__(self, graph, plan):
        self.tensors, self.ops = graph["tensors"], graph["ops"]
        self.base = storages(graph)
        self.views = {}
        for i, b in enumerate(self.base):
            if i != b:
                self.views.setdefault(b, []).append(i)
        self.live = {i for i, t in enumerate(self.tensors) if t["kind"] == "resident"}
        self.held = {}        # storage -> bytes
        self.guests = plan.get("residents") or []  # in slower memory at the start and the end
        self.away = set(self.guests)  # storages that slower memory has a copy of
        self.old = set()      # residents of slower memory that an op wrote since they were copied
        self.moving = {}      # storage -> (verb, end) of its copy that is under way
        self.second = plan.get("second_place") or {}  # of two places of slower memory
        self.begin = self.second.get("begin", 0)      # where it begins
        self.places = [lanes(plan), lanes(self.second)]
        self.tops = [0, 0]    # the end of the highest copy in each place
        self.lane_ends = {}   # (place, lane) -> when it has ended all its copies so far
        self.copy_offsets = None
        if "copies" in plan or self.guests:
            self.copy_offsets = dict(map(tuple, plan.get("copies") or []))
        self.copies, self.slower = {}, 0  # storage -> (begin, end) in slower memory
        self.last_copy = {self.base[i]: step for step, (verb, i, *_) in enumerate(plan["actions"])
                          if verb in ("offload", "prefetch", "wait") and 0 <= i < len(self.base)
                          and self.base[i] not in self.away}
        self.spans = {}       # storage -> (begin, end) in the arena
        self.runs = [0] * len(self.ops)
        self.boundary = next((index for index, op in enumerate(self.ops)
                              if op.get("type") == BOUNDARY), None)  # of the two halves of the step
        self.writers = {}     # storage -> the ops that overwrite it, in the order of the graph
        for index, op in enumerate(self.ops):
            for position in op.get("mutates") or ():
                self.writers.setdefault(self.base[op["inputs"][position]], []).append(index)
        self.send_residents_away()
        self.resident = sum(self.tensors[i]["bytes"] for i in self.live)
        self.cost, self.now, self.peak, self.arena = 0, self.resident, self.resident, self.resident
        self.offsets = {step: {(kind, i): at for kind, i, at in born}
                        for step, born in plan.get("offsets") or []}
        self.borders = plan.get("borders") or []

    def send_residents_away(self):
        """A resident of slower memory has a copy there, and none in memory, when a step begins."""
        for storage in self.guests:
            if storage not in self.live:
                raise Broken(f"tensor {storage} should lie in slower memory, but is no resident")
            self.live.discard(storage)
            self.place_copy(storage)

    def take(self, storage):
        self.held[storage] = self.tensors[storage]["bytes"]
        self.now += self.held[storage]
        self.live.add(storage)

    def drop(self, storage, what):
        self.need_live(storage, what)
        if storage in self.moving:
            raise Broken(f"{what} of tensor {storage} while a copy of it is under way")
        if storage in self.old:
            raise Broken(f"{what} of tensor {storage}: what was written to it is in no copy")
        self.now -= self.held.pop(storage)
        self.spans.pop(storage, None)
        self.live.discard(storage)
        self.live.difference_update(self.views.get(storage, ()))

    def need_live(self, storage, what):
        if storage not in self.held:
            name = self.tensors[storage]["name"]
            raise Broken(f"{what} of tensor {storage} ({name}), which is not live")

    def start_copy(self, verb, storage):
        """A copy begins when the ones before it in its lane have ended; `cost` is the time now."""
        if storage in self.moving:
            raise Broken(f"{verb} of tensor {storage} while a copy of it is under way")
        place = self.place_of((self.copy_offsets or {}).get(storage, -1))
        shared, of_verb = self.places[place]
        lane = (place, "offload" if shared else verb)
        latency, per_byte = of_verb[verb]
        begin = max(self.cost, self.lane_ends.get(lane, 0))
        self.lane_ends[lane] = begin + latency + per_byte * self.tensors[storage]["bytes"]
        self.moving[storage] = (verb, self.lane_ends[lane])

    def offload(self, storage):
        self.need_live(storage, "offload")
        self.start_copy("offload", storage)
        self.old.discard(storage)
        if storage not in self.away:
            self.place_copy(storage)
        self.away.add(storage)

    def place_copy(self, storage):
        size = self.tensors[storage]["bytes"]
        if self.copy_offsets is not None and size:
            if storage not in self.copy_offsets:
                raise Broken(f"tensor {storage} has no address in slower memory")
            begin = self.copy_offsets[storage]
            if begin < 0 or any(begin < e and b < begin + size for b, e in self.copies.values()):
                raise Broken(f"the copy of tensor {storage} at {begin} overlaps another")
            place, end = self.place_of(begin), begin + size
            if place == 0 and self.second and end > self.begin:
                raise Broken(f"the copy of tensor {storage} at [{begin},{end}) lies across the "
                             f"border of places at {self.begin}")
            self.copies[storage] = (begin, end)
            self.slower = max(self.slower, end)
            self.tops[place] = max(self.tops[place], end)

    def place_of(self, offset):
        return int(bool(self.second) and offset >= self.begin)

    def check_places(self):
        """Copies are within the budget of their place, and the first place has no room beside
        them."""
        if not self.second:
            return
        self.slower = max(self.slower, self.begin)
        if self.tops[0] != self.begin:
            raise Broken(f"the plan claims {self.begin} bytes of the first place, but takes "
                         f"{self.tops[0]}")
        taken = self.tops[0], max(0, self.tops[1] - self.begin)
        for bytes_taken, budget in zip(taken, self.second.get("budgets") or ()):
            if budget is not None and bytes_taken > budget:
                raise Broken(f"copies take {bytes_taken} bytes of a place of slower memory, and "
                             f"its budget is {budget}")

    def wait(self, step, storage):
        if storage not in self.moving:
            raise Broken(f"wait for tensor {storage}, of which no copy is under way")
        self.cost = max(self.cost, self.moving.pop(storage)[1])
        if self.last_copy.get(storage) == step:
            self.copies.pop(storage, None)

    def place(self, step, born):
        """Checks that what begins here overlaps nothing live; `born` has (kind, index, bytes)."""
        if not self.offsets:
            return
        given, fresh = self.offsets.get(step, {}), []
        for kind, i, size in born:
            if size == 0:
                continue
            if (kind, i) not in given:
                raise Broken(f"no offset for {kind} {i}")
            begin, end = given[kind, i], given[kind, i] + size
            if begin < 0:
                raise Broken(f"negative offset for {kind} {i}")
            for border in self.borders:
                if begin < border < end:
                    raise Broken(f"{kind} {i} at [{begin},{end}) lies across the border {border}")
            for other, (b, e) in [*self.spans.items(), *fresh]:
                if begin < e and b < end:
                    raise Broken(f"{kind} {i} at [{begin},{end}) overlaps {other} "
                                 f"at [{b},{e})")
            fresh.append(((kind, i), (begin, end)))
            self.arena = max(self.arena, self.resident + end)
        self.spans.update((i, span) for (kind, i), span in fresh if kind == "t")

    def check_freshness(self, index):
        """What an op reads must hold what the ops before it in the graph wrote, and no other."""
        op = self.ops[index]
        only_views = op["outputs"] and all(self.base[o] != o for o in op["outputs"])
        if only_views and not op.get("mutates"):
            return  # a view op reads no bytes
        for i in op["inputs"]:
            for writer in self.writers.get(self.base[i], ()):
                what = f"op {index} ({op['name']}) reads tensor {i} ({self.tensors[i]['name']})"
                by = f"op {writer} ({self.ops[writer]['name']})"
                if writer > index and self.runs[writer]:
                    raise Broken(f"{what} after {by} overwrote it")
                if writer < index and not self.runs[writer]:
                    raise Broken(f"{what} before {by} wrote it")

    def check_half(self, index):
        """The caller's own code runs at the boundary, and no effect of an op crosses it."""
        op = self.ops[index]
        effect = op.get("mutates") or op.get("random") or not op.get("recomputable", True)
        if not effect or self.boundary in (None, index):
            return
        if (self.runs[self.boundary] > 0) != (index > self.boundary):
            raise Broken(f"op {index} ({op['name']}) has an effect, and crosses the boundary")

    def check_effects(self):
        for index, op in enumerate(self.ops):
            effect = op.get("mutates") or not op.get("recomputable", True)
            if effect and not self.runs[index]:
                raise Broken(f"op {index} ({op['name']}) has an effect and never runs")

    def write_residents(self, op):
        """By the first run of the op; a later one writes nothing."""
        for position in op.get("mutates") or ():
            storage = self.base[op["inputs"][position]]
            if storage in self.moving:
                raise Broken(f"op {op['name']} writes tensor {storage} while it is copied")
            if storage in self.guests:
                self.old.add(storage)

    def check_residents(self):
        for storage in self.guests:
            if storage in self.held:
                raise Broken(f"resident {storage} is in memory at the end, and was not at first")

    def run(self, step, index, in_place=()):
        op = self.ops[index]
        for i in op["inputs"]:
            if i not in self.live or self.moving.get(self.base[i], ("",))[0] == "prefetch":
                raise Broken(f"op {index} ({op['name']}) needs tensor {i} "
                             f"({self.tensors[i]['name']}), which is not live")
        self.check_freshness(index)
        self.runs[index] += 1
        if self.runs[index] > 1 and not op.get("recomputable", True):
            raise Broken(f"op {index} ({op['name']}) may run only once")
        if self.runs[index] == 1:
            self.check_half(index)
            self.write_residents(op)
        allowed, overwritten = dict(map(tuple, op.get("inplace") or [])), {}
        for position in in_place:
            if position not in allowed:
                raise Broken(f"op {index} ({op['name']}) may not write output {position} in place")
            target, source = op["outputs"][position], self.base[op["inputs"][allowed[position]]]
            fits = self.tensors[target]["bytes"] <= self.held.get(source, -1)
            if not fits or source in self.guests or source in overwritten.values():
                raise Broken(f"op {index} ({op['name']}) cannot write output {position} "
                             f"over tensor {source}")
            overwritten[target] = source
        for target, source in overwritten.items():
            span = self.spans.get(source)
            self.drop(source, "overwrite")
            if span is not None:
                self.spans[target] = (span[0], span[0] + self.tensors[target]["bytes"])
        born = []
        for o in op["outputs"]:
            if o in self.live:
                raise Broken(f"op {index} ({op['name']}) runs while its output {o} is live")
            if self.base[o] == o:
                self.take(o)
                if o not in overwritten:
                    born.append(("t", o, self.tensors[o]["bytes"]))
            elif self.base[o] in self.live:
                self.live.add(o)
            else:
                raise Broken(f"output {o} views tensor {self.base[o]}, which is not live")
        work = op.get("workspace_bytes", 0)
        self.place(step, born + [("w", index, work)])
        self.peak = max(self.peak, self.now + work)
        self.cost += op["cost"]

    def act(self, step, verb, index, *rest):
        things = self.ops if verb == "run" else self.tensors
        if not 0 <= index < len(things):
            raise Broken(f"{verb} {index}, which does not exist")
        storage = None if verb == "run" else self.base[index]
        if verb == "run":
            self.run(step, index, *rest)
        elif verb == "free":
            self.drop(storage, "free")
        elif verb == "offload":
            self.offload(storage)
        elif verb == "prefetch":
            if storage not in self.away or storage in self.held:
                raise Broken(f"prefetch of tensor {storage}, which is live or was never offloaded")
            self.take(storage)
            self.peak = max(self.peak, self.now)
            self.place(step, [("t", storage, self.held[storage])])
            self.start_copy("prefetch", storage)
        elif verb == "wait":
            self.wait(step, storage)
        else:
            raise Broken(f"unknown action {verb}")


def lanes(place):
    """Of a place of slower memory: whether its lanes are shared, and each of them."""
    out, back = place.get("lane_out") or (0, 0), place.get("lane_in") or (0, 0)
    return bool(place.get("lanes_shared")), {"offload": out, "prefetch": back}


def storages(graph):
    """For each tensor the one that owns its bytes."""
    return [i if t.get("alias_of") is None else t["alias_of"]
            for i, t in enumerate(graph["tensors"])]


def check_claims(plan, machine):
    """What a plan says of itself must be so."""
    arena = machine.arena if machine.offsets else None
    slower = None if machine.copy_offsets is None else machine.slower
    for key, real in (("cost", machine.cost), ("peak_bytes", machine.peak),
                      ("arena_bytes", arena), ("slower_bytes", slower)):
        claim = plan.get(key)
        if claim is not None and real is not None and abs(claim - real) > 1e-9 * abs(real):
            raise Broken(f"the plan claims {key} {claim}, but it is {real}")


def up_to_date(plan):
    """In version 1 an offload ended its value, and a prefetch brought it at once."""
    if plan.get("version", 1) != 1:
        return plan
    actions, offsets = [], []
    given = dict(map(tuple, plan.get("offsets") or []))
    for step, action in enumerate(plan["actions"]):
        if step in given:
            offsets.append([len(actions), given[step]])
        actions.append(action)
        if action[0] in ("offload", "prefetch"):
            actions.append(["wait", action[1]])
        if action[0] == "offload":
            actions.append(["free", action[1]])
    return {**plan, "actions": actions, **({"offsets": offsets} if "offsets" in plan else {})}


def replay(graph, plan, budget=None):
    """Replays the actions of a plan.

    Returns {"valid": True, "cost", "peak_bytes", "runs"[, "arena_bytes"]}, or {"valid": False,
    "action", "error"}.
    """
    plan = up_to_date(plan)
    step = None
    try:
        machine = Replay(graph, plan)
        if machine.borders != sorted(machine.borders):
            raise Broken("the borders are not in ascending order")
        for step, action in enumerate(plan["actions"]):
            machine.act(step, *action)
        step = None
        if machine.moving:
            raise Broken(f"copies of tensors {sorted(machine.moving)} are under way at the end")
        machine.check_residents()
        machine.check_effects()
        for o in graph["outputs"]:
            if o not in machine.live:
                name = graph["tensors"][o]["name"]
                raise Broken(f"output tensor {o} ({name}) is not live at the end")
        if budget is not None and machine.peak > budget:
            raise Broken(f"peak {machine.peak} exceeds the budget {budget}")
        if budget is not None and machine.offsets and machine.arena > budget:
            raise Broken(f"arena {machine.arena} exceeds the budget {budget}")
        machine.check_places()
        check_claims(plan, machine)
    except Broken as broken:
        return {"valid": False, "action": step, "error": str(broken)}
    result = {"valid": True, "cost": machine.cost, "peak_bytes": machine.peak,
              "runs": sum(machine.runs)}
    if machine.offsets:
        result["arena_bytes"] = machine.arena
    return result


def keep_all(graph):
    """The plan that runs each op once, in order, and frees each value after its last use."""
    base = storages(graph)
    kept = {base[o] for o in graph["outputs"]}
    last = {}
    for step, op in enumerate(graph["ops"]):
        for i in op["inputs"] + op["outputs"]:
            last[base[i]] = step
    dead = {}
    for storage, step in last.items():
        if storage not in kept and graph["tensors"][storage]["kind"] != "resident":
            dead.setdefault(step, []).append(storage)
    actions = []
    for step in range(len(graph["ops"])):
        actions.append(["run", step])
        actions += [["free", storage] for storage in dead.get(step, ())]
    return {"format": "lowtide-plan", "version": 1, "graph": graph["name"], "strategy": "keep-all",
            "actions": actions}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graph")
    parser.add_argument("plan", help="a plan, or 'keep-all'")
    parser.add_argument("--budget", type=int, help="bytes; default: the plan's own budget_bytes")
    args = parser.parse_args()
    with open(args.graph) as f:
        graph = json.load(f)
    if args.plan == "keep-all":
        plan = keep_all(graph)
    else:
        with open(args.plan) as f:
            plan = json.load(f)
    budget = args.budget if args.budget is not None else plan.get("budget_bytes")
    result = replay(graph, plan, budget)
    print(json.dumps(result))
    return 0 if result["valid"] else 1


if __name__ == "__main__":
    sys.exit(main())
