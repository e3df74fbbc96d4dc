"""What a page shows of a module that Inductor compiles within a budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ... import InputError, _core, format_bytes
from ...page import CompiledPlan, MeasuredMemory, Origin
from .. import inductor
from .sampling import measured_step
from .shown_module import ShownGraph, ShownModule, held_beside, memory_figures, origin_of

if TYPE_CHECKING:
    from ..inductor.mode import FittedCall, InductorMode
    from ..inductor.step_of_kernels import PlannedStep

_ADDRESSES = ("Inductor chooses the addresses of the code that it makes, and no plan knows them: "
              "none are drawn.")


def inductor_step(mode: InductorMode, step: Callable[[], object] | None = None) -> ShownModule:
    """Of the kind of call that ran last. ``step``: is run and measured. Raises InputError where
    nothing is compiled."""
    measured = None if step is None else _measured(mode, step)
    call = mode.last
    if call is None:
        raise InputError("nothing is compiled: no step was run since the model was wrapped, or "
                         "since its budget changed. Give wrap the example_inputs, or run a step "
                         "before")
    planned = inductor.planned_step(call.fitted, mode.name)
    memory, choice = mode.memory(), call.fitted.choice
    figures = [*memory_figures(memory), ("split", choice.name),
               ("time above Inductor alone, estimated", f"{choice.overhead:+.2%}")]
    held = held_beside(memory, call.state_bytes, planned.graph, measured)
    shown = ShownGraph(planned.graph, planned.plan, _origins(planned), held,
                       _compiled(planned, call))
    return ShownModule(figures, f"A step, compiled by Inductor: {memory}.{_others(mode)}", [shown])


def _others(mode: InductorMode) -> str:
    others = len(mode.calls) - 1
    if not others:
        return ""
    return (f" This is the kind of call that ran last; {others} more, of other sizes, modes or "
            f"gradients, {'is' if others == 1 else 'are'} compiled too.")


def _compiled(planned: PlannedStep, call: FittedCall) -> CompiledPlan:
    choice, plan = call.fitted.choice, planned.plan
    beside = max(0, call.existing_bytes - planned.graph.resident_bytes)
    notes = (f"Ops are kernels as they were predicted before Inductor ordered and fused them, and "
             f"times are {_core.cost_origin(planned.graph)}; as Inductor lowered the passes, they "
             f"are expected to take {format_bytes(choice.expected_bytes)} in all. Bytes of the "
             f"graph leave out {format_bytes(beside)} that lie beside it, as the optimizer's state "
             f"does. Keep-all is PyTorch's own split, which Inductor runs without a limit.")
    base = choice.name
    if planned.is_ours:
        base = "PyTorch's own split" if planned.whole is None else "a smaller split of PyTorch's"
        split = f"Lowtide's plan by {plan.strategy}, which begins with {base},"
        notes += (" The plan's budget is what was left for this graph by what was predicted, "
                  "lowered and measured.")
    else:
        split = choice.name
    return CompiledPlan(split, _ADDRESSES, planned.again,
                        f"{base} computes it again instead of saving it for the backward pass",
                        planned.whole, notes)


def _origins(planned: PlannedStep) -> list[Origin]:
    """Of what an op makes, or else of the last node inside of which something is known."""
    return [Origin() if group is None else
            next(filter(any, map(origin_of, reversed(group))), Origin())
            for group in planned.groups]


def _measured(mode: InductorMode, step: Callable[[], object]) -> MeasuredMemory:
    """What existed before the step is added as the mode counts it."""
    found, kinds = mode.begin_count(), len(mode.calls)
    measured = measured_step(step, found.counter.now)
    call = mode.last
    if call is None:
        raise InputError("step ran no training step of the model: give a function that calls it "
                         "forward and backward")
    compiled = ("; the model was compiled meanwhile, and the steps that this measures are in it"
                if len(mode.calls) > kinds else "")
    return measured.above(call.existing_at(found) - found.taken_bytes, compiled)
