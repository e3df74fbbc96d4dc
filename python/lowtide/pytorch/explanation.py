"""What is kept and what runs again in a wrapped module, in words."""

from __future__ import annotations

import torch

from .. import _core
from .wrap import session_of


def explanation(model: torch.nn.Module, most: int) -> str:
    """The memory of a step, then each graph's peak and recomputations; ``most`` lines of a kind.

    Raises InputError for a module that is not wrapped.
    """
    session = session_of(model)
    if not session.regions:
        return ("Nothing is planned yet: the model was wrapped without example inputs and did not "
                "run.")
    parts = [str(session.memory())]
    for region in session.regions:
        plan = session.plan_for(region)
        parts.append(f"{region.name}: {len(region.priced.graph.ops)} ops\n"
                     + _core.explain(region.priced.graph, plan, most))
    return "\n\n".join(parts)
