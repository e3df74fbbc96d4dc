"""The op where the forward pass ends, and what it means for the ops on either side."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from ... import InputError
from ..joint_graph.primals import placeholders
from .captured import BOUNDARY, Output
from .document import Document
from .user_line import at_user_line


@dataclasses.dataclass(frozen=True)
class Boundary:
    op: int
    forward_outputs: tuple[Output, ...]
    tangents: tuple[int, ...]  # tensors, by tangent


def add_boundary(document: Document, joint: torch.fx.GraphModule, returned: Sequence[object],
                 updated: Sequence[int]) -> Boundary:
    """The op that hands over the forward outputs and is given the tangents.

    ``updated``: the primals that the caller overwrites once the forward pass is over.
    """
    outputs = tuple(document.output(result) for result in returned)
    handed = list(dict.fromkeys(output.tensor for output in outputs if output.tensor is not None))
    overwritten = _overwritten(document, joint, updated, handed)
    inputs = [*handed, *overwritten]
    tangents: list[int] = []
    op = {"name": "boundary", "type": BOUNDARY, "inputs": inputs, "outputs": tangents, "cost": 0,
          "phase": "backward", "recomputable": False,
          "args": [{"tensors": list(range(len(inputs)))}]}
    if overwritten:
        op["mutates"] = list(range(len(handed), len(inputs)))
    for node in placeholders(joint, "tangents"):
        # The caller's memory: no bytes of ours.
        index = document.tensors.add_foreign(node, node.meta["val"], node.target)
        tangents.append(index)
        document.values[node] = Output(index)
    document.add_op(op, None)
    return Boundary(len(document.ops) - 1, outputs, tuple(tangents))


def _overwritten(document, joint, updated, handed):
    """Residents that get another value behind the forward pass; not those whose new value is the
    resident itself, written where it is already."""
    primals = placeholders(joint, "primals")
    residents = [document.values[primals[index]].tensor for index in updated]
    return [index for index in residents if index is not None and index not in handed]


def hold_results_outside(document: Document, boundary: Boundary) -> None:
    """What is returned lies in the caller's memory, made once and written by nothing else."""
    held = {document.storage(result.tensor) for result in boundary.forward_outputs
            if result.tensor is not None}
    for index in held:
        if document.records[index]["kind"] == "value":
            document.records[index]["bytes"] = 0
    _read_once(document, boundary, held)
    for op in document.ops:
        if held.intersection(op["outputs"]):
            op["recomputable"] = False
        if "inplace" in op:
            op["inplace"] = [(output, source) for output, source in op["inplace"]
                             if not held.intersection({op["outputs"][output],
                                                       op["inputs"][source]})]


def _read_once(document: Document, boundary: Boundary, results: set[int]) -> None:
    """Results that no gradient reads are read by nothing that runs again for one: the caller may
    drop them, and then nothing of them is left."""
    behind = {document.storage(index) for op in document.ops[boundary.op + 1:]
              if not _only_views(document, op) for index in op["inputs"]}
    results = {index for index in results - behind
               if document.records[index]["kind"] == "value"}
    for op in document.ops[:boundary.op]:
        read = {document.storage(index) for index in op["inputs"]}
        if results & read and not _only_views(document, op):
            op["recomputable"] = False


def _only_views(document: Document, op: dict) -> bool:
    """Whether the op reads no bytes; the readers of its views do."""
    return bool(op["outputs"]) and all("alias_of" in document.records[made]
                                       for made in op["outputs"])


def refuse_stale_reads(document: Document, boundary: Boundary) -> None:
    """Behind the boundary an overwritten primal has its new value; a gradient may want the old.

    Raises InputError for one that does.
    """
    op = document.ops[boundary.op]
    overwritten = {op["inputs"][position] for position in op.get("mutates", ())}
    for index in range(boundary.op + 1, len(document.ops)):
        reader = document.ops[index]
        if _only_views(document, reader):
            continue  # the readers of the views are looked at in turn
        for storage in map(document.storage, reader["inputs"]):
            if storage in overwritten:
                raise InputError(
                    f"The gradient needs the old value of {document.records[storage]['name']}, "
                    f"which the forward pass overwrites{at_user_line(document.nodes[index])}. "
                    f"Compute with a clone of it.")
