"""The backend of torch.compile: ``torch.compile(model, backend="lowtide", options={...})``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from functorch.compile import make_boxed_func
from torch import fx
from torch._dynamo.backends.common import aot_autograd

from .capture import from_joint, mutated_primals
from .capture.primals import placeholders
from .halves import backward_half, forward_half
from .primal_names import primal_names, primal_roles
from .region import Region
from .session import Session
from .settings import settings_from
from .shapes import is_symbolic, PerShape


def lowtide_backend(graph: fx.GraphModule, inputs: Sequence, options: Mapping | None = None,
                    **others) -> Callable:
    """A graph of dynamo as a callable that trains within ``options["budget"]``.

    The other options are those of ``settings.Settings``. Each call of ``torch.compile`` with its
    own options has its own budget, which all graphs that it makes share.
    """
    options = options if options is not None else others.get("backend_options")
    return compiled(graph, inputs, _session_of(options))


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
    return backend(graph, inputs)


def _partition(joint: fx.GraphModule, num_fwd_outputs: int, graph: fx.GraphModule,
               inputs: Sequence, session: Session) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Captures and plans the joint graph; its two halves are calls of the region."""
    primals = placeholders(joint, "primals")
    position = [_position(node, index) for index, node in enumerate(primals)]
    names, roles = primal_names(graph), primal_roles(graph, inputs)
    captured = from_joint(joint, num_fwd_outputs, name=_graph_name(session),
                          primal_roles=[roles[index] for index in position],
                          primal_names=[names[index] for index in position],
                          updated=mutated_primals(joint))
    trained = [value for value, role in zip(inputs, roles) if role == "parameter"]
    region = session.add(captured, trained)
    results = list(joint.graph.output_node().args[0])
    saved = _saved(region, primals)
    ticket = _fake_ticket(primals)
    return (
        forward_half(_run_forward(session, region), primals, results[:num_fwd_outputs], saved,
                     ticket),
        backward_half(_run_backward(session, region), saved, ticket,
                      placeholders(joint, "tangents"), results[num_fwd_outputs:]),
    )


def _run_forward(session: Session, region: Region) -> Callable:
    def run_forward(*primals):
        outputs, ticket = session.forward(region, primals)
        return (*outputs, ticket)
    return run_forward


def _run_backward(session: Session, region: Region) -> Callable:
    def run_backward(ticket, *tangents):
        return session.backward(region, ticket, tangents)
    return run_backward


def _saved(region: Region, primals: Sequence[fx.Node]) -> list[fx.Node]:
    """The primals that the backward half may read: all that ops read, but for what the module
    itself overwrites."""
    read = {index for op in region.captured.graph.ops for index in op.inputs}
    return [node for position, (node, index) in enumerate(zip(primals, region.captured.primals))
            if index in read and position not in region.captured.updated]


def _fake_ticket(primals: Sequence[fx.Node]) -> torch.Tensor:
    mode = torch._guards.detect_fake_mode([node.meta["val"] for node in primals])
    with mode:
        return torch.zeros(1, dtype=torch.int64)


def _position(node: fx.Node, index: int) -> int:
    """Which input of dynamo's graph a primal is: AOTAutograd leaves out duplicates."""
    return getattr(node.meta.get("desc"), "idx", index)


def _graph_name(session: Session) -> str:
    return f"graph {len(session.regions)}"


_SESSIONS: dict = {}


def _session_of(options: Mapping | None) -> Session:
    settings = settings_from(options)
    key = repr(settings)
    return _SESSIONS.setdefault(key, Session(settings))
