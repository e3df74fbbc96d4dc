"""``lowtide.wrap``: a module that trains within a budget of bytes."""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch.nn.parallel import DistributedDataParallel

from .. import InputError
from . import inductor
from .autograd.session import Session
from .budget.budget import Budget
from .budget.offload import Offload, require_memory_of_their_own, slower_limit
from .budget.settings import TIME_LIMIT, Settings
from .capture import describe_inputs
from .common.fused_update import FusedUpdate
from .common.plain_optimizer import plain_optimizer
from .common.plannable import require_plannable
from .common.precision import in_precision, warn_if_slow
from .common.prepared import Prepared
from .dynamo.compile import compile_graph
from .dynamo.errors_of_ops import ErrorsOfOps
from .dynamo.peft_weights import substitute_weights
from .dynamo.sizes_of_calls import SizesOfCalls
from .dynamo.surroundings import TracePerSurroundings
from .dynamo.trace import is_traced_here, traced
from .dynamo.transformers_masks import known_masks
from .dynamo.unplanned import (
    Unplanned,
    graph_breaks,
    in_a_transform,
    nothing_captured,
    traced_too_often,
)
from .instead_of_ddp import wrapped_within
from .on_ranks import group_for, sharding_of_ranges, wrapped_on_ranks
from .planned_class import in_class_of_its_own, plain_module, planned_forward, session_of
from .preparation import prepare
from .ranks_and_frameworks import members_on_ranks
from .shards.group import Group
from .shards.model_on_ranks import ModelOnRanks
from .sizes.size_ranges import SizeRanges

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from .inductor.mode import InductorMode


def wrap(
    model: torch.nn.Module,
    example_inputs=None,
    budget: Budget | int | str | None = None,
    *,
    optimizer=None,
    strategy: str | None = None,
    options: Mapping[str, float | str] | None = None,
    time_limit: float = TIME_LIMIT,
    cache: bool | str | None = None,
    report: Callable[[str], None] | None = None,
    mode: str = "executor",
    when_infeasible: str | None = None,
    batches_ahead: int = 0,
    verbose: bool = True,
    cuda_graph: bool = False,
    offload: Offload | str | os.PathLike[str] | None = None,
    offload_budget: int | str | None = None,
    precision: str | None = None,
    slices: int | str = 1,
    fused_update: FusedUpdate | bool = False,
    stash: str | None = "exact",
    dynamic_shapes: Mapping | Sequence | None = None,
    mesh: DeviceMesh | None = None,
    sharding: str | None = None,
    coalesce: bool = True,
) -> torch.nn.Module:
    """A module that computes what ``model`` does, to the bit, and trains within ``budget``.

    It shares everything with ``model``: parameters, buffers, hooks, mode, the keys of its state. A
    copy or a pickle of it is the plain model, and wrapped again it is planned anew. Of
    DistributedDataParallel the module within is planned; with ``mesh`` or ``sharding`` the plan
    reduces gradients instead. ``example_inputs``: a tensor, or a tuple
    or dict of what the model is called with; the step is captured and planned at once, and the
    model is left as it was. Without them that happens at the first call.

    ``budget``: bytes, ``"6GiB"``, ``"60%"`` of what the same step takes when every value is kept,
    or None for no limit. It counts parameters, gradients, what the optimizer holds (``optimizer``:
    the optimizer itself, its class or its name; None counts what Adam would hold), inputs, saved
    values, kernels' scratch memory. ``strategy`` and ``options`` as in ``lowtide.plan``;
    ``time_limit``: seconds of planning at most, spent by work that is counted, so that the plan is
    the same each time unless the machine is too slow or busy for it; ``cache``: whether plans are
    kept for later runs, as they are unless it is False, and ``"refresh"`` uses none of an earlier
    run (``"executor"`` alone keeps any); ``report``: is called with a line for each stage; without
    it, measuring and planning that take longer than two seconds say so in a line each on standard
    error, unless ``verbose`` is False. ``mode``: ``"executor"`` runs PyTorch's own kernels at
    planned addresses; ``"inductor"`` compiles forward and backward with Inductor, which rounds and
    draws as ``torch.compile`` does, and measures a few steps with the example inputs.
    ``when_infeasible``: whether a step that no plan fits raises InfeasibleError (``"error"``) or
    runs by the plan that needs the least, with a warning (``"warn"``); None raises until a step was
    run to its end, so that a training goes on once it has begun. ``batches_ahead``: how many
    batches the data loader holds beside the one in use (Accelerate's: 1); the budget counts them.
    ``cuda_graph``: records the forward and the backward pass once each as a graph of the device
    (CUDA's, or the simulated one's), and submits that from then on: one launch for a pass instead
    of one for each op. Inputs are copied to fixed places, results to memory of their own; both
    count in the budget, as does what the optimizer takes in its own step. Random ops are then never
    run again. Refused where the device has no graphs, as the CPU, and for ops that make the host
    wait, which are named with their line.
    ``offload``: where values that do not fit may move and come back from, decided together with
    what runs again: a folder on a disk; ``"host"``, for a model on a device with memory of its
    own; or a ``lowtide.Offload`` that also says how fast copies are, which is measured otherwise,
    whether parameters may move, and of a disk beside the host's memory. It needs a budget, which
    on the CPU also counts the buffers of copies to a disk (8 MiB) where something moves;
    ``strategy`` is then ``"search"`` (values only run again), ``"offload"`` (they only move) or
    None. ``offload_budget``: how many bytes may lie there, None for what is free. That there is no
    room is an Error before the first step. A copy that fails is an Error of the pass that waits for
    it, and names the value. The state of ``optimizer``, if that is an object of a class that treats
    each element alone, lies there too between its steps where a step does not fit otherwise, or
    takes longer; ``optimizer.step()`` then brings it back in pieces, and ``optimizer.state_dict()``
    as a whole. ``lowtide.Offload(..., optimizer_state=...)`` forces or forbids that.
    ``precision``: ``"bf16"`` or ``"fp16"`` captures and runs each call of the model as within
    ``torch.autocast(device, dtype)``, with the bits of eager PyTorch there; parameters, their
    gradients and the optimizer's state keep their types. It holds inside the model also where the
    caller is under another autocast, or under a disabled one; None computes as the caller does.
    What is computed outside, such as a loss, is in the caller's precision, of outputs in the type
    that autocast leaves them in. ``"fp16"`` needs a scaled loss, as without one small gradients
    become zero and large ones infinite, and no error is raised::

        scaler = torch.amp.GradScaler(device)
        scaler.scale(model(batch)).backward()
        scaler.step(optimizer)
        scaler.update()

    ``slices``: in how many slices of the batch each op runs that treats its rows apart, as products
    of matrices, convolutions and attention do: what it takes at a time is then that of a slice, so
    a step may fit that has an op too large for the budget. Ops that mix the rows run as a whole;
    batch norm's statistics are those of the whole batch. Gradients of parameters are added up slice
    by slice and dropout draws by slice: results are those of the model but for the rounding of sums
    and for which elements are dropped, and no longer the same bits. ``"auto"``: 1 where that keeps
    all values, else the first of 1, 2, 4, ... that has a plan, doubled as long as the plan of more
    slices takes less time by its prediction.
    ``fused_update``: the backward pass updates each parameter by the step of ``optimizer``, an
    object, as soon as its gradient is complete, and the gradient is gone then; so gradients never
    exist all at once. ``optimizer.step()`` is still to be called after each ``backward()``:
    schedulers and hooks work, and what the graph does not update is updated. Results are the same
    bits. ``lowtide.FusedUpdate(max_norm=1.0)`` clips by the norm of all gradients before, as
    ``torch.nn.utils.clip_grad_norm_`` with the model's parameters does; gradients are then held
    until the norm is known, or made again where the budget has no room for that.
    ``.gradient_norm`` of the result is the norm of the last backward pass, before clipping. It is
    not for what needs gradients between the two, which is an Error: other clipping, a GradScaler,
    several backward passes, gradients that DistributedDataParallel reduces.
    ``stash``: what may be held in fewer bits between the passes, where a step does not fit
    otherwise or takes longer. ``"exact"``: what is the same bits when it is widened, such as masks
    and indices of pooling; None: nothing; ``"bf16"``, ``"fp16"`` or ``"int8"`` (a scale for each
    256 elements): also activations, which changes the gradients. How much is measured on the first
    batch, told in a warning and by ``lowtide.explain``.
    ``dynamic_shapes``: the sizes that vary, as ``torch.export.export`` takes them, of the inputs by
    their names: ``{"input_ids": {1: torch.export.Dim("length", min=16, max=512)}}``. Before the
    first step the largest is planned, which is an InfeasibleError where it does not fit, and it is
    checked that all others fit where it does; then none is traced, measured or planned again.
    Sizes outside of a range run as without, with a warning.
    ``mesh``: a ``torch.distributed.DeviceMesh`` of one dimension, on all ranks of which this call
    is made: each trains on batches of its own, and the budget is one of bytes on each rank. Of two
    dimensions, shards lie along the second one, and along the first one ranks have the same. All
    begin with the parameters and buffers of the first. Gradients are their mean over the ranks when
    ``backward()`` returns, and are reduced while it runs. ``sharding``: ``"none"``, each rank has
    all parameters; ``"full"``, each has rows of every large parameter, of its gradient and of its
    optimizer state, and the others for a while, as the plan decides (ZeRO 3); ``"gradients"``, it
    has the others from the forward pass to the backward pass (ZeRO 2); None: the one of these that
    fits and is predicted to be the fastest. Parameters in shards are DTensors, which optimizers,
    ``clip_grad_norm_`` and ``torch.distributed.checkpoint`` know; ``optimizer``, if that is an
    object, gets them, and its state is placed with them. All ranks need batches of the same sizes,
    but for those of ``dynamic_shapes``, with which parameters are whole on each rank.
    ``coalesce``: whether small parameters and gradients may go in one message, and more of them in
    one collective, where there is a budget and plans within it are predicted to be faster for it.
    With ``offload``, values of each rank move, to a file of its own where it is a folder, and
    neither parameters nor the state of the optimizer do.
    ``.no_sync()`` of the result is for accumulation, as of DistributedDataParallel. ``.memory``, or
    ``lowtide.memory`` of it where the model has something of that name, says what was planned and
    measured, ``lowtide.explain`` what is kept and what runs again.
    Raises InputError for what cannot be captured, with the line of the model's code, and
    InfeasibleError for a budget below what the step needs at least; ``model`` is then as it was.
    """
    model = plain_module(model)
    require_plannable(model)
    group = group_for(model, mesh, sharding)

    def planned(model: torch.nn.Module) -> torch.nn.Module:
        return _planned(model, example_inputs, settings, group, sharding, dynamic_shapes)

    with contextlib.nullcontext() if group is None else group.failing_together("wrap the model"):
        settings = Settings(Budget.parse(budget), plain_optimizer(optimizer), strategy,
                            {} if options is None else options, time_limit, cache, report, mode,
                            when_infeasible, batches_ahead, verbose, cuda_graph,
                            Offload.parse(offload), slower_limit(offload_budget), precision, slices,
                            FusedUpdate.parse(fused_update), stash, coalesce=coalesce)
        warn_if_slow(precision, model)
        if isinstance(model, DistributedDataParallel):
            return wrapped_within(model, settings, group,
                                  lambda module: planned(plain_module(module)))
        return planned(model)


def _planned(model: torch.nn.Module, example_inputs, settings: Settings, group: Group | None,
             sharding: str | None, dynamic_shapes: Mapping | Sequence | None) -> torch.nn.Module:
    """Of one process, or on all ranks of the group."""
    require_plannable(model)
    if group is not None:
        if dynamic_shapes is not None:
            sharding = sharding_of_ranges(model, sharding)
        return wrapped_on_ranks(model, example_inputs, settings, group, sharding,
                                functools.partial(planned_module, dynamic_shapes))
    if sharding is not None:
        raise InputError(f"sharding={sharding!r} needs a mesh, or a model that is within "
                         f"DistributedDataParallel: give mesh, or leave sharding out where there "
                         f"is one process")
    if not settings.coalesce:
        raise InputError("coalesce=False needs a mesh, or a model that is within "
                         "DistributedDataParallel with sharding: leave it out where there is one "
                         "process")
    planned, _ = planned_module(dynamic_shapes, model, example_inputs, settings)
    return planned


def planned_module(dynamic_shapes: Mapping | Sequence | None, model: torch.nn.Module,
                   example_inputs, settings: Settings, on_ranks: ModelOnRanks | None = None
                   ) -> tuple[torch.nn.Module, Session | InductorMode]:
    """The planned module, whose step is planned for the example inputs where there are any, and
    what knows its plans."""
    if settings.offload is not None and settings.offload.parameters:
        require_memory_of_their_own(model.named_parameters())
    ranges = SizeRanges.parse(dynamic_shapes, model.forward, type(model).__name__)
    if ranges is not None:
        settings.require_sizes_may_vary()
    run, session, let_go = _runner(model, settings, ranges, on_ranks)
    exchanged: dict[str, object] = {"forward": planned_forward(model, run)}
    if on_ranks is not None:
        exchanged |= members_on_ranks(model, on_ranks, settings)
    if settings.clips and not hasattr(model, "gradient_norm"):
        exchanged["gradient_norm"] = property(gradient_norm)
    planned = in_class_of_its_own(model, session, exchanged)
    weakref.finalize(planned, let_go).atexit = False
    if example_inputs is not None:
        prepare(model, planned, example_inputs)
    return planned, session


def gradient_norm(model: torch.nn.Module) -> float | None:
    """Of all gradients of the last backward pass of a wrapped module, before they were clipped;
    None before the first.

    ``model.gradient_norm`` is the same where the model has nothing of that name. Raises InputError
    for a module that is not wrapped with ``fused_update=lowtide.FusedUpdate(max_norm=...)``.
    """
    session = session_of(model)
    if not isinstance(session, Session) or not session.settings.clips:
        raise InputError(f"nothing computes the norm of the gradients of {type(model).__name__}: "
                         f"lowtide.wrap(..., fused_update=lowtide.FusedUpdate(max_norm=...)) does")
    return session.gradient_norm


def set_budget(model: torch.nn.Module, budget: Budget | int | str | None) -> None:
    """Gives a wrapped module another budget: bytes, ``"6GiB"``, ``"60%"``, or None for no limit.

    ``model.budget = ...`` does the same where the model has nothing of that name. It holds from the
    next forward or backward pass on; a pass that runs in another thread ends within the old one.
    Forward passes that wait for their backward pass give their memory back where the new budget has
    no room for it, and run again then; results stay the same bits. Stashes and ``slices="auto"``
    are chosen again, by searches of a second; a better plan is looked for in the background.
    With ``mode="inductor"`` the next call is compiled anew, and raises it where no split fits.

    Raises InfeasibleError, with the smallest budget that does, where no plan fits: the old budget
    then stays. Raises InputError for a module that is not wrapped.
    """
    session_of(model).set_budget(Budget.parse(budget))


def _runner(model: torch.nn.Module, settings: Settings, ranges: SizeRanges | None,
            on_ranks: ModelOnRanks | None
            ) -> tuple[Callable, Session | InductorMode, Callable[[], None]]:
    """What computes the model's forward, what knows how, and what lets go of what was traced."""
    def forward(*arguments, **named):
        return model.forward(*arguments, **named)

    precisely = functools.partial(in_precision, settings.precision, model)
    if settings.mode == "inductor":
        compiled_mode = inductor.InductorMode(model, forward, settings)
        run = _within_traces(precisely(compiled_mode), precisely(forward))
        return run, compiled_mode, compiled_mode.forget
    placed = None if on_ranks is None else on_ranks.placed
    parameters = model.parameters if on_ranks is None else on_ranks.parameters
    session = Session(settings, parameters, type(model).__name__)
    session.is_only_planned = on_ranks is not None and on_ranks.is_only_planned

    def trace():
        def run(*arguments, **named):
            # Where Dynamo gives a function up it runs as it is. A trace leaves this out, without a
            # guard on what comes second.
            if not torch.compiler.is_compiling() and session.preparing:
                raise Prepared
            # Not by ``forward``, a function whose traces all wrapped modules would share.
            return model.forward(*arguments, **named)

        def compiled(graph, inputs):
            if graph_breaks() != session.breaks_before_call:
                session.note_pieces()
            describe_inputs(graph, inputs, model)
            return compile_graph(graph, inputs, session, ranges, placed)

        return traced(run, compiled, name=session.name, see_error_of_op=errors_of_ops.see)

    planned = TracePerSurroundings(trace)
    unplanned = Unplanned(model, session)
    errors_of_ops = ErrorsOfOps(session, unplanned)

    def run_traced(arguments: Sequence, named: Mapping):
        substitute_weights()
        with known_masks(model.forward, arguments, named):
            return planned(*arguments, **named)

    of_call = (SizesOfCalls(ranges, model, session, run_traced).of_call if ranges is not None
               else lambda *_: contextlib.nullcontext())

    in_forward = contextlib.nullcontext if on_ranks is None else on_ranks.in_forward

    # Around what traces and not within: so a graph break in the model is in no with block.
    @precisely
    def run_by_own_plan(*arguments, **named):
        # There is nothing to plan, and each length of a text that is generated would be traced. On
        # ranks the trace shows which parameters to gather.
        if on_ranks is None and not torch.is_grad_enabled():
            session.evaluate()
            return model.forward(*arguments, **named)
        if in_a_transform():
            return unplanned.run("it was called within a transform of torch.func, such as grad or "
                                 "vmap, and plans are for loss.backward()", arguments, named)
        runs, breaks = session.runs, graph_breaks()
        session.breaks_before_call = breaks
        try:
            with of_call(arguments, named), in_forward(), errors_of_ops.of_call():
                result = run_traced(arguments, named)
        except FailOnRecompileLimitHit as failure:
            return unplanned.run(traced_too_often(failure), arguments, named)
        if session.runs == runs:
            unplanned.note(nothing_captured(graph_breaks() - breaks), "nothing captured")
        return result

    def let_go():
        planned.forget()
        session.forget()

    return _within_traces(run_by_own_plan, precisely(forward)), session, let_go


def _within_traces(run_by_own_plan: Callable, run_as_part: Callable) -> Callable:
    """What runs by its own plan, and as a part of the plan of another wrapped module that is
    traced. Where another thread compiles, it runs apart."""
    run_apart = torch._dynamo.disable(
        run_by_own_plan, reason="a module that lowtide.wrap planned runs by its own plan")

    def run_planned(*arguments, **named):
        if not torch.compiler.is_compiling():
            return run_by_own_plan(*arguments, **named)
        return (run_as_part if is_traced_here() else run_apart)(*arguments, **named)

    return run_planned
