"""What a step by a plan takes."""

from ... import Graph, Plan, _core


def needed_bytes(graph: Graph, plan: Plan) -> int:
    """Residents included. Those that the plan moves are back when a step is over, and what is to be
    left then is left, beside the sections of its block in which gradients lie: these may end higher
    than the plan's peak wants, as it was made for a larger budget."""
    return _core.needed_bytes(graph, plan)
