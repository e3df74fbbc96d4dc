"""``lowtide.wrap``: a module that trains within a budget of bytes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import torch
from torch._dynamo.exc import BackendCompilerFailed

from .. import Error, InputError
from .backend import compiled
from .session import Memory, Prepared, Session
from .settings import Settings


def wrap(
    model: torch.nn.Module,
    example_inputs=None,
    budget: int | str | None = None,
    *,
    optimizer=None,
    strategy: str | None = None,
    options: Mapping[str, float] | None = None,
    time_limit: float = 10.0,
    cache: bool = True,
    report: Callable[[str], None] | None = None,
) -> torch.nn.Module:
    """A module that computes what ``model`` does, to the bit, and trains within ``budget``.

    It shares everything with ``model``: parameters, buffers, hooks, mode, the keys of its state.
    A copy or a pickle of it is the plain model. ``example_inputs``: a tensor, or a tuple or dict of
    what the model is called with; the step is captured and planned at once, and the model is left
    as it was. Without them that happens at the first call.

    ``budget``: bytes, ``"6GiB"``, ``"60%"`` of what the same step takes when every value is kept,
    or None for no limit. It counts parameters, gradients, what the optimizer holds (``optimizer``:
    the optimizer itself, its class or its name; None counts what Adam would hold), inputs, saved
    values, kernels' scratch memory. ``strategy`` and ``options`` as in ``lowtide.plan``;
    ``time_limit``: seconds of planning; ``cache``: whether plans are kept for later runs;
    ``report``: is called with a line for each stage.

    ``.memory`` of the result says what was planned and measured, ``lowtide.explain`` what is kept
    and what runs again. Raises InputError for what cannot be captured, with the line of the model's
    code, and InfeasibleError for a budget below what the step needs at least; ``model`` is then as
    it was.
    """
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"wrap() wants a torch.nn.Module, not {type(model).__name__}; for a "
                         f"function use torch.compile(function, backend=\"lowtide\")")
    settings = Settings(budget, optimizer, strategy, dict(options or {}), time_limit, cache, report)
    planned = _planned(model, Session(settings, list(model.parameters())))
    if example_inputs is not None:
        _prepare(planned, example_inputs)
    return planned


def session_of(model: torch.nn.Module) -> Session:
    """The session of a wrapped module. Raises InputError for another one."""
    session = getattr(type(model), "_lowtide_session", None)
    if session is None:
        raise InputError(f"{type(model).__name__} is not wrapped: call lowtide.wrap(model, ...) and "
                         f"use what it returns")
    return session


def _planned(model: torch.nn.Module, session: Session) -> torch.nn.Module:
    """An object of a class of its own, derived from the model's, over the same attributes."""
    plain = type(model)
    run = torch.compile(model.forward, backend=lambda graph, inputs:
                        compiled(graph, inputs, session))

    def forward(self, *arguments, **named):
        try:
            return run(*arguments, **named)
        except BackendCompilerFailed as failure:
            if isinstance(failure.inner_exception, Error):
                raise failure.inner_exception from None
            raise

    def memory(self) -> Memory:
        """What a step was planned to take and took, in bytes."""
        return session.memory()

    def reduce(self, protocol):
        return model.__reduce_ex__(protocol)

    def deepcopy(self, memo):
        return copy.deepcopy(model, memo)

    planned_class = type(plain.__name__, (plain,), {
        "__doc__": plain.__doc__, "__module__": plain.__module__, "forward": forward,
        "memory": property(memory), "__reduce_ex__": reduce, "__deepcopy__": deepcopy,
        "_lowtide_session": session,
    })
    planned = planned_class.__new__(planned_class)
    planned.__dict__ = model.__dict__
    return planned


def _prepare(planned: torch.nn.Module, example_inputs) -> None:
    """Captures and plans what one call runs, and runs nothing."""
    session = session_of(planned)
    session.preparing = True
    try:
        if isinstance(example_inputs, Mapping):
            planned(**example_inputs)
        elif isinstance(example_inputs, (tuple, list)):
            planned(*example_inputs)
        else:
            planned(example_inputs)
    except Prepared:
        pass
    finally:
        session.preparing = False
