"""What a step by a plan takes."""

from ... import Graph, Plan


def needed_bytes(graph: Graph, plan: Plan) -> int:
    """Residents included. Those that the plan moves are back when a step is over, beside the
    section of its block in which gradients lie: that may end higher than the plan's peak wants, as
    it was made for a larger budget."""
    if not plan.residents_away:
        return plan.arena_bytes
    away = sum(graph.tensors[index].bytes for index in plan.residents_away)
    block = plan.arena_bytes - (graph.resident_bytes - away)
    kept = plan.borders[-1] if plan.borders else block
    return max(plan.arena_bytes, graph.resident_bytes + kept)
