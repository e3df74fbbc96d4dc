"""What cannot be recorded as a graph of the device, with the line of the user's code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from ... import Error, InputError, _runtime
from ..capture import Captured
from ..capture.user_line import at_user_line

#: Of ops for whose results the host waits: their values, or their sizes.
_WAITING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}

_REMEDY = "Leave cuda_graph out, or change that line"


def require_recordable(captured: Captured) -> None:
    """Raises InputError where the device has no graphs, or an op makes the host wait."""
    why = _runtime.why_no_graphs(captured.device)
    if why:
        raise InputError(f"cuda_graph=True needs a device that can record its work: {why}. Leave "
                         f"it out, or move the model to such a device")
    for op, node in zip(captured.graph.ops, captured.nodes, strict=True):
        if node is not None and _makes_the_host_wait(node):
            raise InputError(f"{captured.graph.name} cannot be recorded for cuda_graph=True: the "
                             f"host waits for what {op.type} finds{at_user_line(node)}. {_REMEDY}")


def _makes_the_host_wait(node: torch.fx.Node) -> bool:
    tags = set(getattr(node.target, "tags", ()))
    takes_indices = any(isinstance(argument, (list, tuple)) and any(
        isinstance(index, torch.fx.Node) for index in argument) for argument in node.args)
    # An index that is a mask has a size that is not known, which no graph of a step has.
    return bool(tags & _WAITING) and not takes_indices


@contextlib.contextmanager
def explained(executor, captured: Captured) -> Iterator[None]:
    """Errors of recording name the user's line."""
    try:
        yield
    except Error as error:
        op = executor.unrecordable_op
        if op < 0:
            raise
        node = captured.nodes[op]
        where = "" if node is None else at_user_line(node)
        raise Error(f"{captured.graph.name} cannot be recorded for cuda_graph=True: {error}{where}. "
                    f"{_REMEDY}") from None
