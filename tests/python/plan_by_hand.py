"""Plans written by hand."""

import json

import lowtide


def rule_against_another_run(graph, op, behind):
    """The rule that forbids to run `op` again right behind the op `behind`; None if none does."""
    keep_all = json.loads(lowtide.keep_all(graph).format())
    actions = [action for action in keep_all["actions"] if action[0] != "free"]
    at = next(i for i, action in enumerate(actions) if action[:2] == ["run", behind])
    lost = [["free", index] for index in graph.ops[op].outputs
            if graph.tensors[index].alias_of is None]
    actions[at + 1:at + 1] = [*lost, ["run", op]]
    plan = {"format": "lowtide-plan", "version": 1, "graph": graph.name, "actions": actions,
            "cost": 0, "peak_bytes": sum(tensor.bytes for tensor in graph.tensors)}
    violation = lowtide.verify(graph, lowtide.Plan.parse(json.dumps(plan)))
    return violation and violation.rule
