"""Inductor within a budget of bytes, as a backend for torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch._functorch import config as functorch_config
from torch._inductor.compile_fx import compile_fx, compile_fx_inner

from ..budget.budget import Budget
from ..budget.settings import TIME_LIMIT
from ..capture import describe_inputs, recurrent_kernels
from ..dynamo.backend_errors import with_own_errors
from .lower.fusion import fusion
from .lower.saved_inputs import save_inputs_as_they_are
from .select.partition_fn import PlannedPartition


def backend(
    budget: Budget | int | str | None, *, other_bytes: int = 0, after_bytes: int = 0,
    strategy: str | None = None, options: Mapping[str, float | str] | None = None,
    time_limit: float = TIME_LIMIT,
) -> Callable:
    """``torch.compile(model, backend=backend("6GiB"), dynamic=False)``: split, then compiled.

    ``budget`` is bytes, ``"1.5GiB"``, ``"60%"`` of what Inductor alone takes, or None, for each
    graph that Dynamo makes of the model; with ``fullgraph=True`` it makes one. The parameters are
    those of ``PlannedPartition``. The budget is kept by what Inductor says of its own buffers
    before it generates code; ``compile_within`` keeps it by measurement.

    While compiling InfeasibleError is raised when no split is within the budget, InputError for
    graphs that cannot be planned.
    """
    return compiler(PlannedPartition(budget, strategy=strategy, options=options,
                                     time_limit=time_limit, other_bytes=other_bytes,
                                     after_bytes=after_bytes))


def compiler(partition: PlannedPartition) -> Callable:
    """Inductor as a backend, with graphs split by ``partition``.

    What AOTAutograd kept of earlier runs is not used: the partition would not be asked. Recurrent
    layers are not traced by PyTorch's Python code, which leaves out the dropout between them and
    takes a layer of oneDNN that is for inference alone.
    """
    def compile_half(half, inputs, **settings):
        near = partition.found is not None and partition.found.near
        if near and not settings.get("is_backward"):
            save_inputs_as_they_are(half)
        with fusion(near):
            return compile_fx_inner(half, inputs, **settings)

    @with_own_errors
    def compile_graph(graph, inputs):
        partition.described = describe_inputs(graph, inputs)
        with functorch_config.patch(enable_autograd_cache=False), recurrent_kernels():
            return compile_fx(graph, inputs, inner_compile=compile_half,
                              config_patches={"custom_partitioner_fn": partition})

    return compile_graph
