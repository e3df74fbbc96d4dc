"""Compiles a graph of Dynamo to a callable that a session plans and runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import fx

from ..autograd.session import Session
from .aot_wrappers import behind_aot_wrappers
from .fast_path import differentiable_results
from .joint_trace import JointTrace, trace_joint
from .shapes import PerShape, is_symbolic, number_positions, with_numbers
from .used_results import Used, detached
from .variants import Variants


def compile_graph(graph: fx.GraphModule, inputs: Sequence, session: Session) -> Callable:
    """The callable of a graph, planned in ``session`` with those that are there."""
    numbers = number_positions(graph)
    if numbers or any(is_symbolic(value) for value in inputs):
        def compile_for(*given):
            values = {position: given[position].item() for position in numbers}
            return _compile_for(with_numbers(graph, values), given, session)
        return PerShape(compile_for, numbers)
    return _compile_for(graph, inputs, session)


def _compile_for(graph: fx.GraphModule, inputs: Sequence, session: Session) -> Callable:
    name = session.next_name()

    def evaluate(run: Callable, arguments: Sequence):
        session.evaluate()
        return run(*arguments)

    full = trace_joint(graph, inputs, name, evaluate)
    if not isinstance(full, JointTrace):
        return full
    session.begin_capture(full.captured.device)
    # Under no_grad, what needs gradients is connected within the graph.
    results = differentiable_results(graph, inputs, full) if torch.is_grad_enabled() else None
    if results is None:
        return behind_aot_wrappers(full, session)

    def trace_again(primals: Sequence, used: Used) -> JointTrace:
        written = len(full.metadata.mutated_inp_runtime_indices)
        unused = [position - written for position, is_used in zip(results, used) if not is_used]
        which = f"{name}, gradients of {sum(used)} of {len(used)} results"
        found = trace_joint(detached(graph, unused), primals, which, evaluate)
        assert isinstance(found, JointTrace), "some result is differentiated"
        return found

    variants = Variants(full, results, session, trace_again)
    variants.prepare(inputs)
    return variants
