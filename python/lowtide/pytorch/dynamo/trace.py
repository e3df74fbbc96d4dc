"""torch.compile with Dynamo's settings for wrapped modules, and how to release what it compiled."""

from __future__ import annotations

import collections
import contextlib
import functools
import sys
import threading
import types
from collections.abc import Callable

import torch
from torch._dynamo.exc import TorchRuntimeError
from torch._dynamo.types import ConvertFrameReturn, FrameAction, FrameExecStrategy

from ... import Error
from ...interruptible import no_interrupt_lost
from ..capture.tracing import logging_functions
from ..common.one_trace import ONE_TRACE_AT_A_TIME
from ..common.prepared import Prepared
from .backend_errors import with_own_errors
from .calls_that_raise import CallsThatRaise, forget_entry
from .quietly import quietly
from .retrace_warning import RetraceWarning
from .unique_code import with_unique_code

#: How often one function is traced at most for one model, for each kind of call that it meets.
MOST_TRACES = 64

#: With all that the function calls; the next call of it is traced.
_RUN_ONCE_AS_IT_IS = ConvertFrameReturn(
    frame_exec_strategy=FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP), apply_to_code=False)

_here = threading.local()


def tracing_patiently(traces: int = 0):
    """A context with Dynamo's settings for wrapped modules. A module that is traced too often would
    run unplanned, so that is an error; recurrent layers and gradients within the forward pass are
    traced through; what is logged is left out, as it would split the step; a hook that is
    registered later has the model traced again; ops are those of eager PyTorch, as Dynamo's
    decompositions of some round otherwise.

    ``traces``: how many of the function there were for this model, which are limited. Dynamo counts
    those of other models too, and of models that are gone.
    """
    config = torch._dynamo.config
    limit = sys.maxsize if traces < MOST_TRACES else 0
    return config.patch(
        skip_nnmodule_hook_guards=False, recompile_limit=limit,
        accumulated_recompile_limit=sys.maxsize, fail_on_recompile_limit_hit=True, allow_rnn=True,
        trace_autograd_ops=True, enable_dynamo_decompositions=False,
        ignore_logging_functions=config.ignore_logging_functions | logging_functions())


def traced(function: Callable, backend: Callable | str, *, fullgraph: bool = False,
           fixed_shapes: bool = False, name: str = "the model",
           see_error_of_op: Callable[[TorchRuntimeError], None] | None = None) -> Callable:
    """``torch.compile(function, backend=backend)`` with these settings, and none that other
    functions were traced by.

    Errors of Lowtide in the backend are raised as they are. ``fullgraph``: what is no single graph
    is refused; ``fixed_shapes``: other sizes are traced anew and none is left open; ``name``: of
    the model, for warnings. The settings hold while something is traced and not around each call:
    there they would take longer than a small model's forward pass.
    """
    retrace_warning = RetraceWarning(name)
    if callable(backend):
        backend = with_own_errors(backend)
    context = torch._dynamo.optimize(backend, nopython=fullgraph,
                                     guard_fail_fn=retrace_warning.see_failed_guard)
    trace = context.callback
    own_backend = torch._dynamo.eval_frame.innermost_backend(trace)
    codes: dict[int, types.CodeType] = {}
    traces: collections.Counter[int] = collections.Counter()  # by code
    calls_that_raise = CallsThatRaise()

    @functools.wraps(trace)
    def trace_patiently(frame, *arguments, **named):
        code = id(frame.f_code)
        codes[code] = frame.f_code
        with (ONE_TRACE_AT_A_TIME, no_interrupt_lost(), tracing_patiently(traces[code]),
              _shapes(fixed_shapes), quietly(), _tracing_here()):
            try:
                found = trace(frame, *arguments, **named)
            except TorchRuntimeError as error:
                if see_error_of_op is None:
                    raise
                see_error_of_op(error)
                return _RUN_ONCE_AS_IT_IS
        traces[code] += found.guarded_code is not None
        calls_that_raise.see_trace(frame.f_code, found)
        return found

    def let_go():
        nonlocal trace, see_error_of_op
        trace = see_error_of_op = None
        trace_patiently.__dict__.clear()
        torch._dynamo.eval_frame.cached_backends.pop(id(backend), None)
        while codes:
            _forget_compiled(codes.popitem()[1], own_backend)

    context.callback = trace_patiently
    compiled = context(with_unique_code(function))

    @functools.wraps(compiled)
    def call(*arguments, **named):
        try:
            found = compiled(*arguments, **named)
        except (Error, Prepared):  # of ours, not of the inputs
            calls_that_raise.see_end()
            raise
        except Exception:
            traces.subtract(map(id, calls_that_raise.see_error()))
            raise
        for code in calls_that_raise.see_end():
            retrace_warning.see_trace(code)
        return found

    vars(call)["_lowtide_let_go"] = let_go
    return call


def forget(function: Callable) -> None:
    """Lets go of what was traced for a function that ``traced`` returned, which then runs no more.

    Dynamo keeps it otherwise as long as the process runs: compiled code, the backend and what that
    holds, and the numbers that tensors were multiplied by. Where tracing failed, it even keeps the
    callback that it traces by, so that one lets go too.
    """
    dynamo = torch._dynamo.eval_frame
    dynamo.reset_code(dynamo.innermost_fn(function).__code__)
    vars(function)["_lowtide_let_go"]()


@torch._dynamo.assume_constant_result
def is_traced_here() -> bool:
    """Whether the trace that comes by is one of ``traced``. Dynamo makes no guard of the answer."""
    return getattr(_here, "is_tracing", False)


@contextlib.contextmanager
def _tracing_here():
    before = is_traced_here()
    _here.is_tracing = True
    try:
        yield
    finally:
        _here.is_tracing = before


def _forget_compiled(code: types.CodeType, backend: Callable) -> None:
    """Lets go of what the backend compiled for a function. Where a graph breaks, Dynamo compiles
    the user's own functions and what is left of them behind the break, which it puts among the
    globals of their modules; these may be compiled for others too."""
    for entry in torch._C._dynamo.eval_frame._debug_get_cache_entry_list(code):
        if entry.backend is backend:
            forget_entry(entry, "its model was dropped")


def _shapes(fixed):
    if not fixed:
        return contextlib.nullcontext()
    return torch._dynamo.config.patch(automatic_dynamic_shapes=False, assume_static_by_default=True)
