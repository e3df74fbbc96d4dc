"""The backend of torch.compile: ``torch.compile(model, backend="lowtide", options={...})``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from functorch.compile import make_boxed_func
from torch import fx
from torch._dynamo.backends.common import aot_autograd

from .. import InputError, _runtime
from .capture import (
    Captured,
    describe_inputs,
    describe_primals,
    eager_kernels,
    from_joint,
    mutated_primals,
)
from .capture.primals import placeholders
from .halves import backward_half, forward_half
from .optimizer_state import optimizer_state_bytes
from .region import Region
from .session import Session
from .settings import UNLIMITED, Settings, settings_from
from .shapes import is_symbolic, PerShape


def lowtide_backend(graph: fx.GraphModule, inputs: Sequence, options: Mapping | None = None,
                    **_) -> Callable:
    """A graph of dynamo as a callable that trains within ``options["budget"]``.

    The other options are those of ``settings.Settings``. Each call of ``torch.compile`` with its
    own options has its own budget, which all graphs that it makes share. With the mode "inductor"
    each graph has the whole budget, and Inductor's figures are trusted: nothing is measured.
    """
    settings = settings_from(options)
    if settings.mode == "inductor":
        return _by_inductor(graph, inputs, settings)
    return compiled(graph, inputs, _session_of(options))


def _by_inductor(graph: fx.GraphModule, inputs: Sequence, settings: Settings) -> Callable:
    from .inductor import backend

    roles = describe_inputs(graph, inputs)
    trained = [value for value, (role, _) in zip(inputs, roles)
               if role == "parameter" and value.requires_grad]
    run = backend(None if settings.budget in UNLIMITED else settings.budget,
                  beside_bytes=optimizer_state_bytes(settings.optimizer, trained),
                  strategy=settings.strategy, options=settings.planning_options,
                  time_limit=settings.time_limit)
    return run(graph, inputs)


def compiled(graph: fx.GraphModule, inputs: Sequence, session: Session) -> Callable:
    """The callable of a graph, planned in ``session`` with those that are there."""
    if any(is_symbolic(value) for value in inputs):
        return PerShape(lambda *given: _compiled_for(graph, given, session))
    return _compiled_for(graph, inputs, session)


def _compiled_for(graph: fx.GraphModule, inputs: Sequence, session: Session) -> Callable:
    def partition(joint, joint_inputs, *, num_fwd_outputs, **_):
        return _partition(joint, num_fwd_outputs, graph, inputs, session)

    def boxed(module, _):
        return make_boxed_func(module.forward)

    def without_gradients(module, _):
        def run(*arguments):
            session.evaluate()
            return module(*arguments)
        return make_boxed_func(run)

    backend = aot_autograd(fw_compiler=boxed, bw_compiler=boxed, partition_fn=partition,
                           inference_compiler=without_gradients)
    with eager_kernels():
        return backend(graph, inputs)


def _partition(joint: fx.GraphModule, num_fwd_outputs: int, graph: fx.GraphModule,
               inputs: Sequence, session: Session) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Captures and plans the joint graph; its two halves are calls of the region."""
    primals = placeholders(joint, "primals")
    _require_cpu(primals)
    described = describe_inputs(graph, inputs)
    roles, names = describe_primals(joint, described)
    captured = from_joint(joint, num_fwd_outputs, name=session.next_name(), primal_roles=roles,
                          primal_names=names, updated=mutated_primals(joint))
    trained = [value for value, (role, _) in zip(inputs, described) if role == "parameter"]
    region = session.add(captured, trained)
    results = list(joint.graph.output_node().args[0])
    returned, derived = results[:num_fwd_outputs], results[num_fwd_outputs:]
    read = _read(captured)
    positions = _saved_primals(captured, read)
    saved = [*(primals[position] for position in positions),
             *_saved_results(captured, read, returned)]
    ticket = _fake_ticket(primals)
    return (
        forward_half(_run_forward(session, region), primals, returned, saved, ticket),
        backward_half(_run_backward(session, region, positions, len(saved)), saved, ticket,
                      placeholders(joint, "tangents"), derived),
    )


def _require_cpu(primals: Sequence[fx.Node]) -> None:
    for node in primals:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            raise InputError(f"{node.name} is on the device {value.device}, and plans are run on "
                             f"the CPU alone: move the model and its inputs there, or save the graph "
                             f"with lowtide.capture to plan it only")


def _run_forward(session: Session, region: Region) -> Callable:
    def run_forward(*primals):
        outputs, ticket = session.forward(region, primals)
        return (*outputs, ticket)
    return run_forward


def _run_backward(session: Session, region: Region, positions: Sequence[int],
                  num_saved: int) -> Callable:
    def run_backward(ticket, *given):
        saved = dict(zip(positions, given))
        return session.backward(region, ticket, saved, given[num_saved:])
    return run_backward


def _saved_primals(captured: Captured, read: set[int]) -> list[int]:
    """Positions of the primals that the backward half may read: all that ops read, but for what
    the module itself overwrites."""
    return [position for position, index in enumerate(captured.primals)
            if index in read and position not in captured.updated]


def _saved_results(captured: Captured, read: set[int], returned: Sequence) -> list[fx.Node]:
    """The forward outputs that ops read: they lie in the caller's memory, where the caller could
    change them."""
    made = read - set(captured.primals)
    nodes = {output.tensor: node for output, node in zip(captured.forward_outputs, returned)}
    return [node for index, node in nodes.items() if index in made]


def _read(captured: Captured) -> set[int]:
    """Tensors that ops read, and the storages of the views that they read."""
    tensors = captured.graph.tensors
    read = {index for number, op in enumerate(captured.graph.ops) if number != captured.boundary
            for index in op.inputs}
    return (read | {tensors[index].alias_of for index in read}) - {None}


def _fake_ticket(primals: Sequence[fx.Node]) -> torch.Tensor:
    mode = torch._guards.detect_fake_mode([node.meta.get("val") for node in primals])
    with mode:
        return torch.zeros(_runtime.Executor.ticket_size(), dtype=torch.int64)


#: By the identity of the options, which are kept beside, so that no others get it.
_SESSIONS: dict[int, tuple[Mapping, Session]] = {}


def _session_of(options: Mapping | None) -> Session:
    """That of a call of torch.compile, which gives each of its graphs the same options."""
    if options is None:
        return Session(settings_from(None))
    if id(options) not in _SESSIONS:
        _SESSIONS[id(options)] = options, Session(settings_from(options))
    return _SESSIONS[id(options)][1]
