"""Where PyTorch's tracer breaks a model into several graphs."""

from __future__ import annotations

import copy
import dataclasses
import re
import warnings

import torch
from torch._dynamo import exc

from .tracing import tracing_settings
from .user_line import is_of_torch

#: Dynamo's name for what of a function comes behind a break.
_RESUMED = re.compile(r"torch_dynamo_resume_in_(\w+)_at_\d+")
#: How Dynamo quotes what an op raised on shapes that do not fit.
_RAISED = re.compile(r"got (?P<kind>\w+Error)\((?P<quote>['\"])(?P<message>.*)(?P=quote)\)")


@dataclasses.dataclass(frozen=True)
class Break:
    line: str  # "model.py:12, in forward"; "" where it is not known
    reason: str

    def __str__(self):
        return f"{self.line}: {self.reason}" if self.line else self.reason


def break_of(error: exc.TorchDynamoException) -> Break:
    """What ended an attempt to trace a model as one graph."""
    return Break(_line(getattr(error, "real_stack", None)), _reason(str(error)))


def all_breaks(module: torch.nn.Module, args: tuple, kwargs: dict) -> tuple[int, list[Break]]:
    """Number of regions and the breaks between them, found by running a copy of the module.

    The random numbers that it draws are given back, and what it warns of was warned of before.
    Raises whatever copying and running raise.
    """
    regions, found = 0, {}

    def run_eagerly(graph, inputs):
        nonlocal regions
        regions += 1
        reason = graph.compile_subgraph_reason
        if reason.graph_break:
            found[Break(_line(reason.user_stack), _reason(reason.reason))] = None
        return graph.forward

    with torch.random.fork_rng(devices=[]), tracing_settings(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, args, kwargs = copy.deepcopy((module, args, kwargs))
        torch.compile(module, backend=run_eagerly, dynamic=False)(*args, **kwargs)
    return regions, list(found)


def _line(stack):
    """The innermost frame outside PyTorch."""
    frames = [frame for frame in stack or () if not is_of_torch(frame.filename)] or stack
    if not frames:
        return ""
    function = _RESUMED.sub(r"\1", frames[-1].name)
    return f"{frames[-1].filename}:{frames[-1].lineno}, in {function}"


def _reason(text):
    """The error that an op raised; else the first line of what Dynamo says, and of its
    explanation."""
    raised = _RAISED.search(text)
    if raised:
        return f"{raised['kind']}: {raised['message']}"
    lines = text.strip().splitlines()
    if lines[0].startswith("generic_jump"):
        return "Data-dependent branching."
    explained = [line.split(":", 1)[1].strip() for line in lines
                 if line.strip().startswith("Explanation:")]
    return ". ".join([lines[0].rstrip(".:"), *explained[:1]])
