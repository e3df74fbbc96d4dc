"""Which tensors of a graph an executor is given, and which it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ..capture import Captured, Output, storages_of
from ..capture.captured import BOUNDARY
from ..joint_graph.primals import placeholders


class ExecutorValues:
    """Of a captured graph: its residents by the primals that it is called with, and the outputs of
    its two halves by the tensors that an executor has computed.

    ``forward_wanted``, ``backward_wanted``: what to ask an executor for, by index of the tensor.
    ``parameters``, ``inputs``: positions of the primals that are parameters, and of those that get
    gradients and are none. ``gradient_bytes``: what the storages of all gradients take.
    """

    def __init__(self, captured: Captured):
        self._joint = captured.joint
        self._residents = _resident_sources(captured)
        self.forward_wanted, self._forward_results = _wanted(captured.forward_outputs)
        self.backward_wanted, self._backward_results = _wanted(captured.gradients)
        tensors, storages = captured.graph.tensors, storages_of(captured.graph)
        self.parameters = {position for position, index in enumerate(captured.primals)
                           if index is not None and tensors[index].role == "parameter"}
        self.inputs = [position for position, gradient in enumerate(captured.gradients)
                       if gradient.tensor is not None and position not in self.parameters]
        self._passed_on = {self._backward_results[position] for position in self.inputs}
        self._written = _written_in_place(captured) - self.parameters
        self.gradient_bytes = sum(tensors[storages[index]].bytes for index in self.backward_wanted)

    def residents(self, primals: Sequence | Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
        """In the order of the graph, of primals by position."""
        return [primals[position] if constant is None else constant
                for position, constant in self._residents]

    def residents_of_saved(self, saved: Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
        """The same where some primals were not saved, as nothing reads them which matters."""
        return [constant if constant is not None
                else saved[position] if position in saved else self._stand_in(position)
                for position, constant in self._residents]

    def with_copies(self, primals: Sequence) -> list:
        """The primals, with copies of those that ops write where they are, but for parameters."""
        return [primal.clone() if position in self._written else primal
                for position, primal in enumerate(primals)]

    def forward_outputs(self, found: Sequence[torch.Tensor]) -> list:
        """``found``: those of ``forward_wanted``."""
        return _filled(self._forward_results, found)

    def gradients(self, found: Sequence[torch.Tensor]) -> list:
        """One gradient, or None, for each primal. ``found``: those of ``backward_wanted``."""
        return _filled(self._backward_results, found)

    def with_copies_to_pass_on(self, found: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """``found``, with copies of the gradients that are no parameter's."""
        return [tensor.clone() if index in self._passed_on else tensor
                for index, tensor in enumerate(found)]

    def _stand_in(self, position: int) -> torch.Tensor:
        """For a primal. It takes no memory."""
        value = placeholders(self._joint, "primals")[position].meta["val"]
        return torch.zeros((), dtype=value.dtype, device=value.device).expand(value.shape)


def _resident_sources(captured: Captured) -> list[tuple[int, torch.Tensor | None]]:
    """By resident storage: the position of its primal, or its constant."""
    positions = {index: position for position, index in enumerate(captured.primals)
                 if index is not None}
    constants = dict(captured.constants)
    return [(positions.get(index, -1), constants.get(index))
            for index, tensor in enumerate(captured.graph.tensors)
            if tensor.kind == "resident" and tensor.alias_of is None]


def _wanted(outputs: Sequence[Output]) -> tuple[list[int], list]:
    """The tensors to ask an executor for, and for each output its place among them, or itself."""
    tensors = list(dict.fromkeys(output.tensor for output in outputs if output.tensor is not None))
    return tensors, [output if output.tensor is None else tensors.index(output.tensor)
                     for output in outputs]


def _written_in_place(captured: Captured) -> set[int]:
    """Positions of the primals that ops write where they are."""
    written = {op.inputs[position] for op in captured.graph.ops if op.type != BOUNDARY
               for position in op.mutates}
    return {position for position, index in enumerate(captured.primals) if index in written}


def _filled(results: Sequence, found: Sequence[torch.Tensor]) -> list:
    return [result.literal if isinstance(result, Output) else found[result] for result in results]
