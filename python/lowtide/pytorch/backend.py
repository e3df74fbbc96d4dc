"""The backend of torch.compile: ``torch.compile(model, backend="lowtide", options={...})``."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence

import torch
from functorch.compile import make_boxed_func
from torch import fx
from torch._dynamo.backends.common import aot_autograd

from .. import InputError, _runtime
from .capture import (
    describe_inputs,
    describe_primals,
    eager_kernels,
    from_joint,
    mutated_primals,
)
from .capture.primals import placeholders
from .direct import direct
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
    connects = torch.is_grad_enabled()  # else what needs gradients is connected within
    straight: Callable | None = None
    find_straight: Callable | None = None

    def partition(joint, joint_inputs, *, num_fwd_outputs, **_):
        nonlocal find_straight
        region = _captured(joint, num_fwd_outputs, graph, inputs, session)
        find_straight = functools.partial(direct, graph, inputs, joint, session, region)
        return _halves(joint, num_fwd_outputs, session, region)

    def forward(module, _):
        nonlocal straight
        straight = find_straight(torch._guards.TracingContext.get().fw_metadata)
        return make_boxed_func(module.forward)

    def backward(module, _):
        return make_boxed_func(module.forward)

    def without_gradients(module, _):
        def run(*arguments):
            session.evaluate()
            return module(*arguments)
        return make_boxed_func(run)

    backend = aot_autograd(fw_compiler=forward, bw_compiler=backward, partition_fn=partition,
                           inference_compiler=without_gradients)
    with eager_kernels(), _tracing_context():
        wrapped = backend(graph, inputs)
    return straight if straight and connects else wrapped


def _tracing_context():
    """Dynamo's, in which AOTAutograd leaves what it found; one of our own where Dynamo is done."""
    if torch._guards.TracingContext.try_get() is not None:
        return contextlib.nullcontext()
    return torch._guards.tracing(torch._guards.TracingContext(None))


def _captured(joint: fx.GraphModule, num_fwd_outputs: int, graph: fx.GraphModule,
              inputs: Sequence, session: Session) -> Region:
    """The joint graph, captured and planned."""
    _require_cpu(placeholders(joint, "primals"))
    described = describe_inputs(graph, inputs)
    roles, names = describe_primals(joint, described)
    captured = from_joint(joint, num_fwd_outputs, name=session.next_name(), primal_roles=roles,
                          primal_names=names, updated=mutated_primals(joint))
    trained = [value for value, (role, _) in zip(inputs, described) if role == "parameter"]
    return session.add(captured, trained)


def _halves(joint: fx.GraphModule, num_fwd_outputs: int, session: Session,
            region: Region) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The two halves of the joint graph, each a call of the region."""
    primals = placeholders(joint, "primals")
    results = list(joint.graph.output_node().args[0])
    returned, derived = results[:num_fwd_outputs], results[num_fwd_outputs:]
    saved = [*(primals[position] for position in region.saved.primals),
             *(returned[position] for position in region.saved.results)]
    ticket = _fake_ticket(primals)
    return (
        forward_half(_run_forward(session, region), primals, returned, saved, ticket),
        backward_half(_run_backward(session, region, len(saved)), saved, ticket,
                      placeholders(joint, "tangents"), derived),
    )


def _require_cpu(primals: Sequence[fx.Node]) -> None:
    for node in primals:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            raise InputError(f"{node.name} is on the device {value.device}, and plans are run on "
                             f"the CPU alone: move the model and its inputs there, or save the "
                             f"graph with lowtide.capture to plan it only")


def _run_forward(session: Session, region: Region) -> Callable:
    def run_forward(*primals):
        outputs, ticket = session.forward(region, primals)
        return (*outputs, ticket)
    return run_forward


def _run_backward(session: Session, region: Region, num_saved: int) -> Callable:
    @torch._dynamo.disable  # compiled autograd would trace into it
    def run_backward(ticket, *given):
        return session.backward(region, ticket, given[:num_saved], given[num_saved:])
    return run_backward


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
