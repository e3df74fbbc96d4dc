"""``lowtide.wrap(..., mode="inductor")``: compiled within a budget for each kind of call."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import torch
from torch._dynamo import exc
from torch._inductor.codegen import common
from torch.utils import _pytree as pytree

from ... import InputError
from ..budget.budget import Budget
from ..budget.memory import Memory, storage_bytes
from ..budget.optimizer_state import optimizer_state_bytes
from ..budget.settings import Settings
from ..capture.breaks import break_of
from ..common.inputs import tensors_in
from ..common.prepared import Prepared
from ..dynamo.surroundings import TracePerSurroundings, surroundings
from ..dynamo.trace import forget, traced
from .fit import Fitted, compile_within
from .measure import peak_of_step, step_device
from .predict.nodes import computed_again


class InductorMode:
    """Runs a model as Inductor compiles it, within ``settings.budget``.

    A call with other shapes, another mode of a module or other gradients kept (to add to them) is
    fitted anew: steps are run with copies of its inputs, compiled and measured, and leave all as it
    was. What runs without gradients is compiled as it is. ``run`` is the model's forward. While
    ``preparing`` a call is fitted and raises Prepared.
    """

    def __init__(self, model: torch.nn.Module, run: Callable, settings: Settings):
        self._model, self._run, self._settings = model, run, settings
        self.name = type(model).__name__
        #: Called where a step begins, when the figures of the one before are complete.
        self.observers: list[Callable[[], None]] = []
        self._has_run = False
        self._plain = TracePerSurroundings(lambda: traced(
            lambda *given, **named: run(*given, **named), "inductor", fixed_shapes=True))
        self._fits: dict[tuple, tuple[Fitted, int]] = {}
        self._last: tuple | None = None
        self.preparing = False

    def __call__(self, *arguments, **named):
        if not (torch.is_grad_enabled() and self._is_trained(arguments, named)):
            return self._plain(*arguments, **named)
        fitted = self.fitted(arguments, named)
        if self.preparing:
            raise Prepared
        for observer in self.observers if self._has_run else ():
            observer()
        self._has_run = True
        return fitted.model(*arguments, **named)

    def fitted(self, arguments: Sequence, named: Mapping) -> Fitted:
        """What runs such a call. Raises InputError for what cannot be traced as one graph, and
        InfeasibleError with the smallest peak that was measured."""
        key = self._kind(arguments, named)
        if key not in self._fits:
            existing = self._existing_bytes(arguments, named)
            self._fits[key] = self._fit(arguments, named, existing), existing
        self._last = key
        return self._fits[key][0]

    @property
    def has_plans(self) -> bool:
        return bool(self._fits)

    why_unplanned = ""

    def forget(self) -> None:
        """Lets go of what was compiled; no call may follow."""
        self._plain.forget()
        for fitted, _ in self._fits.values():
            forget(fitted.model)
        self._fits.clear()

    def release(self) -> None:
        """Nothing is held between two steps."""

    def set_budget(self, budget: Budget) -> None:
        """The next call is fitted anew."""
        self._settings = dataclasses.replace(self._settings, budget=budget)
        for fitted, _ in self._fits.values():
            forget(fitted.model)
        self._fits.clear()
        self._last = None

    # ---- Figures

    @property
    def budget_bytes(self) -> int | None:
        """None without a limit, and for a share of what no call has shown yet."""
        return (self._settings.budget.bytes if self._last is None
                else self._fits[self._last][0].choice.budget_bytes)

    def memory(self) -> Memory:
        if self._last is None:
            fixed = self._existing_bytes((), {})
            return Memory(None, fixed, fixed)
        fitted, existing = self._fits[self._last]
        choice = fitted.choice
        return Memory(choice.budget_bytes, existing, choice.expected_bytes, fitted.measured_bytes)

    def explanation(self, most: int) -> str:
        """The memory of a step and what runs again, ``most`` lines of it."""
        if self._last is None:
            return ("Nothing is compiled yet: the model was wrapped without example inputs and did "
                    "not run.")
        fitted, _ = self._fits[self._last]
        rounds = "once" if fitted.rounds == 1 else f"{fitted.rounds} times"
        lines = [str(self.memory()),
                 f"Compiled by Inductor {rounds}: {fitted.choice.name}, estimated time "
                 f"{fitted.choice.overhead:+.1%}."]
        again = Counter(str(node.target) for node in computed_again(fitted.choice.halves[1]))
        if not again:
            return "\n".join([*lines, "Nothing runs again."])
        rows = [f"  {target}: {count}" for target, count in again.most_common(most)]
        return "\n".join([*lines, "Runs again in the backward, so often:", *rows])

    # ---- Fitting

    def _fit(self, arguments, named, existing) -> Fitted:
        settings, model = self._settings, self._model
        _require_code_for(step_device(model, arguments, named))
        settings.say(f"compiling {type(model).__name__} and measuring its step")
        try:
            with settings.progress(f"compiling {type(model).__name__} and measuring its step"):
                return compile_within(
                    self._run, settings.budget,
                    lambda compiled: existing + peak_of_step(compiled, model, arguments, named),
                    other_bytes=existing - self._seen_bytes(arguments, named),
                    strategy=settings.strategy, options=settings.options,
                    time_limit=settings.time_limit)
        except exc.Unsupported as error:
            raise InputError(f"{type(model).__name__} cannot be compiled as one graph: "
                             f"{break_of(error)}\nRewrite this line, or wrap without "
                             "mode=\"inductor\".") from None

    def _kind(self, arguments, named) -> tuple:
        leaves, structure = pytree.tree_flatten((tuple(arguments), dict(named)))
        return (tuple(map(_kind_of, leaves)), str(structure), self._gradient_bytes(),
                surroundings(), tuple(module.training for module in self._model.modules()))

    def _existing_bytes(self, arguments, named) -> int:
        """All that is there before a step, and what the optimizer holds or will hold."""
        trained = [parameter for parameter in self._model.parameters() if parameter.requires_grad]
        batch = storage_bytes(tensors_in((arguments, named)))
        return (self._seen_bytes(arguments, named) + self._gradient_bytes()
                + self._settings.batches_ahead * batch
                + optimizer_state_bytes(self._settings.optimizer, trained))

    def _seen_bytes(self, arguments, named) -> int:
        """Of parameters, buffers and inputs, each storage once."""
        return storage_bytes([*self._model.parameters(), *self._model.buffers(),
                              *tensors_in((arguments, named))])

    def _is_trained(self, arguments, named) -> bool:
        tensors = [*self._model.parameters(), *tensors_in((arguments, named))]
        return any(tensor.requires_grad for tensor in tensors)

    def _gradient_bytes(self) -> int:
        return sum(parameter.grad.nbytes for parameter in self._model.parameters()
                   if parameter.grad is not None)


def _kind_of(leaf):
    """What compiled code depends on of an argument."""
    if isinstance(leaf, torch.Tensor):
        return tuple(leaf.shape), leaf.stride(), leaf.dtype, leaf.device, leaf.requires_grad
    return repr(leaf)


def _require_code_for(device: torch.device) -> None:
    """Raises InputError where Inductor has no backend for the device."""
    common.init_backend_registration()
    if common.get_scheduling_for_device(device.type) is None:
        raise InputError(f"Inductor generates no code for the device {device}: leave "
                         f"mode=\"inductor\" out, or move the model and its inputs to a device "
                         f"that it knows")
