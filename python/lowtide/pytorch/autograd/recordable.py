"""What cannot be recorded as a graph of the device: with the line of the user's code, and by whom.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from ... import Error, InputError, _runtime
from ..capture import Captured
from ..capture.user_line import at_user_line


def require_recordable(captured: Captured) -> None:
    """Raises InputError where the device has no graphs."""
    if torch.device(captured.device).type == "cuda" and torch.cuda.is_available():
        # PyTorch's interface for the graphs of all devices does not have CUDA's.
        _runtime.add_graphs("cuda", torch.cuda.CUDAGraph)
    why = _runtime.why_no_graphs(captured.device)
    if why:
        raise InputError(f"cuda_graph=True needs a device that can record its work: {why}. Leave "
                         f"it out, or move the model to such a device")


def refuse_recording_from_outside(device: str) -> None:
    """Raises Error while the program records what it asks of the device as a graph of its own.
    Passes decide anew in each step where they run, and prepare memory for it."""
    if torch.device(device).type == "meta":  # computes nothing; refused when it is to
        return
    module = torch.get_device_module(device)
    is_recording = getattr(module, "is_current_stream_capturing", None)
    if is_recording is not None and is_recording():
        raise Error("a pass that Lowtide planned was called while a graph of the device is "
                    "recorded, and cannot be part of one. Call the model outside the graph; "
                    "lowtide.wrap(..., cuda_graph=True) records each of its passes itself")


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
        raise Error(f"{captured.graph.name} cannot be recorded for cuda_graph=True: "
                    f"{error}{where}. Leave cuda_graph out, or change that line") from None
