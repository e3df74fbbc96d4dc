"""The backend of torch.compile: ``torch.compile(model, backend="lowtide", options={...})``."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import fx

from . import inductor
from .autograd.session import Session
from .budget.optimizer_state import optimizer_state_bytes
from .budget.optimizer_step import step_bytes
from .budget.settings import Settings, settings_from
from .capture import describe_inputs
from .dynamo.backend_errors import with_own_errors
from .dynamo.compile import compile_graph


@with_own_errors
def lowtide_backend(graph: fx.GraphModule, inputs: Sequence, options: Mapping | None = None,
                    **_) -> Callable:
    """A graph of dynamo as a callable that trains within ``options["budget"]``.

    The other options are those of ``settings.Settings``. Each call of ``torch.compile`` with its
    own options has its own budget, which all graphs that it makes share. With the mode "inductor"
    each graph has the whole budget, and Inductor's figures are trusted: nothing is measured.
    """
    # Dynamo guards what it traced when the backend has returned. By default it does not look
    # whether hooks were registered since, and would leave them out.
    torch._dynamo.config.skip_nnmodule_hook_guards = False
    settings = settings_from(options)
    if settings.mode == "inductor":
        return _by_inductor(graph, inputs, settings)
    return compile_graph(graph, inputs, _session_of(options))


def _by_inductor(graph: fx.GraphModule, inputs: Sequence, settings: Settings) -> Callable:
    roles = describe_inputs(graph, inputs)
    trained = [value for value, (role, _) in zip(inputs, roles)
               if role == "parameter" and value.requires_grad]
    device = str(trained[0].device) if trained else "cpu"
    after_bytes = (sum(value.nbytes for value in trained)
                   + step_bytes(settings.optimizer, trained, device))
    run = inductor.backend(
        settings.budget, other_bytes=optimizer_state_bytes(settings.optimizer, trained),
        after_bytes=after_bytes, strategy=settings.strategy, options=settings.options,
        time_limit=settings.time_limit)
    return run(graph, inputs)


#: By the identity of the options. A session holds its options, so that no others have that
#: identity while it lives; compiled code holds the session.
_SESSIONS: weakref.WeakValueDictionary[int, Session] = weakref.WeakValueDictionary()


def _session_of(options: Mapping | None) -> Session:
    """That of a call of torch.compile, which gives each of its graphs the same options."""
    session = None if options is None else _SESSIONS.get(id(options))
    if session is None:
        session = Session(settings_from(options))
        session.options = options
        _SESSIONS[id(options)] = session
    return session
