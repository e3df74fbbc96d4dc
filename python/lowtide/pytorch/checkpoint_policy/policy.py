"""A plan as a policy for selective activation checkpointing in eager PyTorch."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

from ... import Error, InputError, Plan
from ..capture import Captured, storages_of
from .held_over_boundary import held_over_boundary

_DROPOUT = "aten::native_dropout"


def selective_checkpoint_policy(captured: Captured, plan: Plan) -> Callable:
    """A ``context_fn`` for checkpointing the module that was captured, in eager PyTorch.

        context_fn = selective_checkpoint_policy(captured, plan)
        y = torch.utils.checkpoint.checkpoint(
            model, x, use_reentrant=False, context_fn=context_fn)

    Each op of the forward is told by its name, the shape of its first result and its occurrence:
    what the plan holds over the boundary and the backward reads is saved, everything else computed
    again. The gradients are those of the module alone, and buffers that it updates (batch norm's
    statistics) are updated once: what a second run does to them is undone.

    What checkpointing cannot express, so that a step takes more than the plan says:

    - *when*: at the first value that it lacks the backward runs the whole region's forward again
      and holds what the gradients need of it, while a plan runs pieces when they are due, some
      several times, and frees them. Only the memory held over the boundary is the plan's.
      Checkpoint parts of the model one by one where that matters.
    - *which result*: of an op with several all are saved if one is held.
    - *views*: they are made again, and a saved value is what they view.
    - *random ops* replay the generator's numbers, so that either all of them run again or, where
      the plan holds the results of all, none. An op in place on the CPU, such as dropout's, cannot
      be saved: what was multiplied with its numbers can.
    - *in-place ops* are run again, never saved; and a value that is saved must not be overwritten
      by one (``ReLU(inplace=True)`` behind batch norm), PyTorch raises there.

    The context raises InputError at the end of the forward when what the plan holds was not
    computed: then the module is not the one captured. Raises Error where PyTorch is too old.
    """
    _require_results()
    expected = _expected(captured, held_over_boundary(captured, plan))

    def context_fn():
        policy = _Policy(*expected)
        forward, recompute = create_selective_checkpoint_contexts(policy)
        return _checked(forward, policy), _leaving_buffers(recompute, policy)

    return context_fn


def _require_results():
    if not hasattr(SelectiveCheckpointContext(is_recompute=False), "op_output"):
        raise Error(f"selective_checkpoint_policy tells ops by their results, which PyTorch "
                    f"{torch.__version__} does not show to a checkpoint policy. Use 2.13 or later, "
                    f"or lowtide.wrap")


@dataclass(frozen=True)
class _Expected:
    """An op of the captured forward: how it shows in eager, and whether it is saved.

    ``save_first``: the first of its results is held, which for dropout is all that can be saved.
    ``effect``: it updates a buffer, which a second run must leave as it is.
    """

    key: tuple
    save: bool
    save_first: bool
    effect: bool


def _expected(captured, held):
    """The forward's ops, and whether those that draw random numbers may be saved."""
    graph, storages = captured.graph, storages_of(captured.graph)
    updates = {output.tensor for output in captured.forward_outputs[:len(captured.updated)]}
    expected, random = [], []
    for op in graph.ops[:captured.boundary]:
        if not op.outputs:
            continue
        own = {i for i in op.outputs if storages[i] == i and i in held}
        key = op.type, tuple(graph.tensors[op.outputs[0]].shape)
        effect = bool(op.mutates) or not updates.isdisjoint(op.outputs)
        expected.append(_Expected(key, bool(own), op.outputs[0] in own, effect))
        if op.random:
            random.append(bool(own))
    return expected, all(random)


class _Policy:
    """Says of each op that runs whether to save it; counts how often each has run.

    ``updated`` are the buffers that were overwritten so far.
    """

    def __init__(self, expected, keep_random):
        self._keep_random = keep_random
        self._open = {}
        for op in expected:
            self._open.setdefault(op.key, deque()).append(op)
        self._dropout = None
        self.updated = []

    def __call__(self, context, op, *args, **_kwargs):
        if not isinstance(op, torch._ops.OpOverload):
            return CheckpointPolicy.MUST_RECOMPUTE
        shape = _shape(context.op_output)
        if op is torch.ops.aten.bernoulli_.float and self._open.get((_DROPOUT, shape)):
            self._dropout = shape
            return CheckpointPolicy.MUST_RECOMPUTE
        if op is torch.ops.aten.mul.Tensor and self._dropout == shape:
            self._dropout = None
            return _policy(self._open[_DROPOUT, shape].popleft().save_first)
        left = self._open.get((_functional(op.name()), shape))
        if not left:
            return CheckpointPolicy.MUST_RECOMPUTE
        found = left.popleft()
        random = torch.Tag.nondeterministic_seeded in op.tags
        can_save = not op._schema.is_mutable and (self._keep_random or not random)
        if found.effect:
            self.updated += _written(op, args)
        return _policy(found.save and can_save)

    def missing(self) -> list[str]:
        """The ops that are to be saved and did not run."""
        return [f"{name} {list(shape)}" for (name, shape), left in self._open.items()
                if any(op.save for op in left)]


def _policy(save):
    return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.MUST_RECOMPUTE


@contextlib.contextmanager
def _checked(forward, policy):
    with forward:
        yield
    missing = policy.missing()
    if missing:
        raise InputError(f"the plan holds results of {', '.join(missing)}, which the checkpointed "
                         "module did not compute; checkpoint the module that was captured, with "
                         "inputs of the same shapes")


@contextlib.contextmanager
def _leaving_buffers(recompute, policy):
    before = [(buffer, buffer.detach().clone()) for buffer in policy.updated]
    try:
        with recompute:
            yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)


def _written(op, args):
    """The buffers among the arguments of an op that it overwrites.

    The schema of batch norm does not tell that it does.
    """
    return [value for argument, value in zip(op._schema.arguments, args)
            if isinstance(value, torch.Tensor)
            and (argument.alias_info is not None and argument.alias_info.is_write
                 or argument.name in ("running_mean", "running_var"))]


def _shape(result):
    first = result[0] if isinstance(result, (tuple, list)) else result
    return tuple(first.shape) if isinstance(first, torch.Tensor) else None


def _functional(name):
    """The name of what an op in place computes: aten::add_.Tensor is aten::add.Tensor."""
    base, dot, overload = name.partition(".")
    return base.rstrip("_") + dot + overload
