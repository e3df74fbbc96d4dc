"""``lowtide.wrap``: a module that trains within a budget of bytes."""

from __future__ import annotations

import copy
import functools
import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch._dynamo.exc import BackendCompilerFailed, FailOnRecompileLimitHit

from .. import Error, InputError
from .backend import compiled
from .inputs import arguments_of, require_one_device
from .memory import Memory
from .session import Prepared, Session
from .settings import Settings
from .traced import MOST_TRACES, forget, traced

if TYPE_CHECKING:
    from .inductor.mode import InductorMode


def wrap(
    model: torch.nn.Module,
    example_inputs=None,
    budget: int | str | None = None,
    *,
    optimizer=None,
    strategy: str | None = None,
    options: Mapping[str, float] | None = None,
    time_limit: float = 30.0,
    cache: bool = True,
    report: Callable[[str], None] | None = None,
    mode: str = "executor",
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
    ``time_limit``: seconds of planning at most, spent by work that is counted, so that the plan is
    the same each time unless the machine is too slow or busy for it; ``cache``: whether plans are
    kept for later runs; ``report``: is called with a line for each stage. ``mode``: ``"executor"`` runs PyTorch's own
    kernels at planned addresses; ``"inductor"`` compiles forward and backward with Inductor, which
    rounds and draws as ``torch.compile`` does, and measures a few steps with the example inputs.

    ``.memory`` of the result says what was planned and measured, ``lowtide.explain`` what is kept
    and what runs again. Raises InputError for what cannot be captured, with the line of the model's
    code, and InfeasibleError for a budget below what the step needs at least; ``model`` is then as
    it was.
    """
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"wrap() wants a torch.nn.Module, not {type(model).__name__}; for a "
                         f"function use torch.compile(function, backend=\"lowtide\")")
    settings = Settings(budget, optimizer, strategy, dict(options or {}), time_limit, cache, report,
                        mode)
    run, session, let_go = _runner(model, settings)
    planned = _in_class_of_its_own(model, run, session)
    weakref.finalize(planned, let_go).atexit = False
    if example_inputs is not None:
        _prepare(planned, example_inputs)
    return planned


def session_of(model: torch.nn.Module) -> Session | InductorMode:
    """The session of a wrapped module. Raises InputError for another one."""
    session = getattr(type(model), "_lowtide_session", None)
    if session is None:
        raise InputError(f"{type(model).__name__} is not wrapped: call lowtide.wrap(model, ...) "
                         f"and use what it returns")
    return session


def _runner(model: torch.nn.Module,
            settings: Settings) -> tuple[Callable, Session | InductorMode, Callable[[], None]]:
    """What computes the model's forward, what knows how, and what lets go of all that was traced."""
    def run(*arguments, **named):
        return model.forward(*arguments, **named)

    if settings.mode == "inductor":
        from .inductor.mode import InductorMode

        session = InductorMode(model, run, settings)
        return session, session, session.forget
    session = Session(settings, list(model.parameters()), type(model).__name__)
    planned = traced(run, lambda graph, inputs: compiled(graph, inputs, session))

    def run_planned(*arguments, **named):
        if _in_a_transform():
            warnings.warn(_transformed(model), stacklevel=5)
            session.evaluate()
            return run(*arguments, **named)
        runs = session.runs
        result = planned(*arguments, **named)
        if session.runs == runs:
            warnings.warn(_nothing_captured(model), stacklevel=5)
        return result

    return run_planned, session, functools.partial(forget, planned)


def _nothing_captured(model: torch.nn.Module) -> str:
    return (f"{type(model).__name__} ran without a plan: torch.compile captured nothing of it. It "
            f"gives up a whole function when something that it cannot trace lies within a loop or "
            f"a with block; TORCH_LOGS=graph_breaks shows the line. Move that out of the loop, or "
            f"wrap the modules that the loop calls one by one")


def _in_a_transform() -> bool:
    """Whether a transform of ``torch.func`` is under way. Dynamo would give the function up, for
    all later calls too."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def _transformed(model: torch.nn.Module) -> str:
    return (f"{type(model).__name__} ran without a plan: it was called within a transform of "
            f"torch.func, such as grad or vmap, and plans are for loss.backward()")


def _in_class_of_its_own(model: torch.nn.Module, run: Callable,
                         session: Session | InductorMode) -> torch.nn.Module:
    """An object of a class derived from the model's, over the same attributes."""
    plain = type(model)

    def forward(self, *arguments, **named):
        try:
            return run(*arguments, **named)
        except BackendCompilerFailed as failure:
            if isinstance(failure.inner_exception, Error):
                raise failure.inner_exception.with_traceback(None) from None
            raise
        except FailOnRecompileLimitHit as failure:
            raise Error(f"{plain.__name__} was traced {MOST_TRACES} times and "
                        f"still meets calls that fit none of its plans: {failure}") from None
        except RuntimeError:
            require_one_device(self, arguments, named)
            raise

    def memory(self) -> Memory:
        """What a step was planned to take and took, in bytes."""
        return session.memory()

    def reduce(self, protocol):
        return _itself, (model,)

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


def _itself(model):
    """What unpickling a wrapped module gives: its pickle holds the plain one."""
    return model


def _prepare(planned: torch.nn.Module, example_inputs) -> None:
    """Captures and plans what one call runs, and runs nothing."""
    session = session_of(planned)
    arguments, named = arguments_of(example_inputs)
    session.preparing = True
    try:
        planned(*arguments, **named)
    except Prepared:
        pass
    finally:
        session.preparing = False
