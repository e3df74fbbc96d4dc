"""A solver for ``torch._functorch.config.activation_memory_budget``."""

from __future__ import annotations

from torch import fx
from torch._inductor.custom_graph_pass import CustomKnapsackSolver, get_hash_for_files

from ..capture import arithmetic
from ..inductor.predict import estimate as estimates
from ..inductor.predict import nodes, rates
from . import knapsack as knapsacks


class MemoryBudgetSolver(CustomKnapsackSolver):
    """Chooses what PyTorch's partitioner keeps within its budget, exactly.

    With an activation memory budget below 1 the partitioner asks which of the values that it would
    rather not compute again to keep. It gives their sizes, the budget as a part of what it would
    save otherwise, and the nodes. The answer is the knapsack with the most time kept, times by
    Lowtide's estimate of what each node costs in compiled code. The built-in "dp" rounds sizes to
    1/10000 of the budget's range, and so may exceed it or fall short; "greedy" falls short.

    That is all the interface can express. The partitioner decides afterwards, by a minimum cut,
    what is really saved; that computing one value again may need another one made again too is
    known to neither; and the budget is one of saved values, not of the step's peak, which
    ``compile_within`` keeps.
    """

    def __call__(
        self, memory: list[float], joint_graph: fx.Graph, max_memory: float, node_info,
        all_recomputable_banned_nodes: list[fx.Node],
    ) -> tuple[list[int], list[int]]:
        """Indices of the values to keep, and of the others."""
        times = [estimates.estimate(node) for node in all_recomputable_banned_nodes]
        kept = knapsacks.knapsack(memory, times, max_memory)
        return kept, sorted(set(range(len(memory))) - set(kept))

    def uuid(self) -> bytes:
        """For PyTorch's caches: this code and that of the estimates decide alone."""
        deciding = (estimates, rates, nodes, arithmetic, knapsacks)
        return get_hash_for_files((__file__, *(module.__file__ for module in deciding)))


#: ``torch._functorch.config.activation_memory_budget_solver = memory_budget_solver``
memory_budget_solver = MemoryBudgetSolver()
