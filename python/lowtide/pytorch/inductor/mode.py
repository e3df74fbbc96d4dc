"""``lowtide.wrap(..., mode="inductor")``: compiled within a budget for each kind of call."""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import torch
from torch._dynamo import exc
from torch._inductor.codegen import common

from ... import InputError, format_bytes
from ..budget.budget import Budget
from ..budget.memory import Memory, storage_bytes
from ..budget.optimizer_state import optimizer_state_bytes
from ..budget.optimizer_step import step_bytes
from ..budget.settings import Settings
from ..capture.breaks import break_of
from ..common.inputs import tensors_in
from ..common.notices import Notices
from ..common.prepared import Prepared
from ..dynamo.retrace_warning import ManyNumbers
from ..dynamo.surroundings import TracePerSurroundings
from ..dynamo.trace import forget, traced
from ..dynamo.unplanned import traced_too_often
from .fit import Fitted, compile_within
from .kinds import CallKind, kind_of_call, numbers_by_name
from .measure import peak_of_step, step_device
from .pass_meter import FoundBytes, PassMeter
from .predict.nodes import computed_again
from .select.candidate import require_room_afterwards

#: Of so many kinds of call code is kept.
_MOST_KINDS = 64


@dataclasses.dataclass(frozen=True)
class FittedCall:
    """What runs one kind of call. ``existing_bytes``: what was there before a step of it, with
    ``gradient_bytes`` of gradients and ``state_bytes`` of the optimizer."""

    fitted: Fitted
    device: torch.device
    existing_bytes: int
    gradient_bytes: int
    state_bytes: int

    def existing_at(self, found: FoundBytes) -> int:
        """What was there with the gradients and the state that were found."""
        state = self.state_bytes if found.state_bytes is None else found.state_bytes
        return (self.existing_bytes - self.gradient_bytes + found.gradient_bytes
                - self.state_bytes + state)


class InductorMode:
    """Runs a model as Inductor compiles it, within ``settings.budget``.

    A call with other shapes, another mode of a module or other gradients kept (to add to them) is
    fitted anew: steps are run with copies of its inputs, compiled and measured, and leave all as it
    was. What runs without gradients is compiled as it is. What is traced too often runs as PyTorch
    runs it, with a warning. ``run`` is the model's forward. While ``preparing`` a call is fitted
    and raises Prepared.
    """

    def __init__(self, model: torch.nn.Module, run: Callable, settings: Settings):
        self._model, self._run, self._settings = model, run, settings
        self.name = type(model).__name__
        #: Called where a step begins, when the figures of the one before are complete.
        self.observers: list[Callable[[], None]] = []
        self._is_open = False
        #: What is compiled is not let go of while a thread is about to run it.
        self._turn = threading.RLock()
        self._meter = PassMeter(settings.optimizer)
        self._notices, self._many_numbers = Notices(), ManyNumbers(self.name)
        self._plain = TracePerSurroundings(lambda: traced(
            lambda *arguments, **named: run(*arguments, **named), "inductor", fixed_shapes=True,
            name=self.name))
        self._fits: dict[CallKind, FittedCall] = {}
        #: By kind, what the last pass took that was measured.
        self._measured: dict[CallKind, int] = {}
        self._last: CallKind | None = None
        self.preparing = False

    def __call__(self, *arguments, **named):
        try:
            with self._turn:
                return self._compiled(arguments, named)
        except exc.FailOnRecompileLimitHit as failure:
            self._notices.warn_once("traced", f"{self.name} ran without a plan: "
                                              f"{traced_too_often(failure)}")
            return self._run(*arguments, **named)

    def _compiled(self, arguments, named):
        if not (torch.is_grad_enabled() and self._is_trained(arguments, named)):
            with self._meter.apart():
                return self._plain(*arguments, **named)
        self._end_pass()
        call = self._fitted(arguments, named)
        if self.preparing:
            raise Prepared
        self._is_open = True
        self._meter.begin(call.device)
        return call.fitted.model(*arguments, **named)

    def _end_pass(self) -> None:
        """What the one before took is known where another begins."""
        found, call = self._meter.end(), self.last
        if found is not None and call is not None:
            self._measured[self._last] = call.existing_bytes + found
            self._warn_above(call.fitted.choice.budget_bytes, call.existing_bytes + found)
        if self._is_open:
            self._is_open = False
            for observer in self.observers:
                observer()

    def _warn_above(self, budget_bytes: int | None, measured_bytes: int) -> None:
        above = 0 if budget_bytes is None else measured_bytes - budget_bytes
        self._notices.warn_of_more("above", above, (
            f"a step of {self.name} took {format_bytes(measured_bytes)}, which are "
            f"{format_bytes(max(0, above))} more than its budget: other code of this process takes "
            f"memory during a step or after it, such as a loss outside of the model, a metric, or "
            f"an optimizer that wrap was not given. Put the loss into the module, so that it is "
            f"measured with it, give optimizer=..., or wrap within a budget that is smaller by as "
            f"much"))

    def _fitted(self, arguments: Sequence, named: Mapping) -> FittedCall:
        """What runs such a call. Raises InputError for what cannot be traced as one graph, and
        InfeasibleError with the smallest peak that was measured."""
        key = kind_of_call(self._model, arguments, named, self._gradient_bytes())
        if key not in self._fits:
            self._many_numbers.see_plan(key.others, numbers_by_name(arguments, named))
            self._forget_oldest()
            existing = self._existing_bytes(arguments, named)
            self._fits[key] = FittedCall(
                self._fit(arguments, named, existing), step_device(self._model, arguments, named),
                existing, self._gradient_bytes(), self.state_bytes)
        self._last = key
        return self._fits[key]

    def _forget_oldest(self) -> None:
        """Where there is no room for another kind."""
        while len(self._fits) >= _MOST_KINDS:
            oldest = next(iter(self._fits))
            forget(self._fits.pop(oldest).fitted.model)
            self._measured.pop(oldest, None)

    @property
    def has_plans(self) -> bool:
        return bool(self._fits)

    why_unplanned = ""

    def forget(self) -> None:
        """Lets go of what was compiled; no call may follow."""
        self._plain.forget()
        for call in self._fits.values():
            forget(call.fitted.model)
        self._fits.clear()

    def release(self) -> None:
        """Nothing is held between two steps."""

    def set_budget(self, budget: Budget) -> None:
        """The next call is fitted anew. Raises InfeasibleError, and the old budget stays, where no
        split fits, whatever the inputs are."""
        with self._turn:
            self._end_pass()
            require_room_afterwards(budget.bytes,
                                    self._existing_bytes((), {}) + self._after_bytes((), {}))
            self._forget_all(budget)

    def _forget_all(self, budget: Budget) -> None:
        """What was compiled within another budget."""
        self._settings = dataclasses.replace(self._settings, budget=budget)
        for call in self._fits.values():
            forget(call.fitted.model)
        self._fits.clear()
        self._measured.clear()
        self._last = None

    # ---- Figures

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def calls(self) -> Sequence[FittedCall]:
        """One of each kind that was fitted."""
        return list(self._fits.values())

    @property
    def last(self) -> FittedCall | None:
        """Of the kind that ran or was fitted last; None before any."""
        return self._fits.get(self._last)  # another thread may set another budget meanwhile

    @property
    def state_bytes(self) -> int:
        """What the optimizer holds, or will hold."""
        return optimizer_state_bytes(self._settings.optimizer, self._trained())

    def _trained(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    @property
    def budget_bytes(self) -> int | None:
        """None without a limit, and for a share of what no call has shown yet."""
        last = self.last
        return self._settings.budget.bytes if last is None else last.fitted.choice.budget_bytes

    def memory(self) -> Memory:
        last = self.last
        if last is None:
            fixed = self._existing_bytes((), {})
            return Memory(self.budget_bytes, fixed, fixed)
        choice = last.fitted.choice
        return Memory(choice.budget_bytes, last.existing_bytes, choice.step_bytes,
                      self._measured_bytes(last))

    def _measured_bytes(self, last: FittedCall) -> int:
        """Of the pass that is under way or the last one; before any, of the steps by which the code
        was chosen."""
        known = self._measured.get(self._last, last.fitted.measured_bytes)
        found = self._meter.so_far()
        return known if found is None else last.existing_bytes + found

    def begin_count(self) -> FoundBytes:
        """What there is now, before a step."""
        return FoundBytes.now(step_device(self._model, (), {}), self._gradient_bytes(),
                              self._settings.optimizer)

    def explanation(self, most: int) -> str:
        """The memory of a step and what runs again, ``most`` lines of it."""
        last = self.last
        if last is None:
            return ("Nothing is compiled yet: the model was wrapped without example inputs and did "
                    "not run.")
        fitted = last.fitted
        rounds = "once" if fitted.rounds == 1 else f"{fitted.rounds} times"
        lines = [str(self.memory()),
                 f"Compiled by Inductor {rounds}: {fitted.choice.name}, estimated time "
                 f"{fitted.choice.overhead:+.1%}."]
        again = Counter(str(node.target) for node in computed_again(fitted.choice.halves))
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
                    after_bytes=self._after_bytes(arguments, named),
                    strategy=settings.strategy, options=settings.options,
                    time_limit=settings.time_limit)
        except exc.Unsupported as error:
            raise InputError(f"{type(model).__name__} cannot be compiled as one graph: "
                             f"{break_of(error)}\nRewrite this line, or wrap without "
                             "mode=\"inductor\".") from None

    def _existing_bytes(self, arguments, named) -> int:
        """All that is there before a step, and what the optimizer holds or will hold."""
        batch = storage_bytes(tensors_in((arguments, named)))
        return (self._seen_bytes(arguments, named) + self._gradient_bytes()
                + self._settings.batches_ahead * batch + self.state_bytes)

    def _after_bytes(self, arguments, named) -> int:
        """What a step takes above that when its passes are over: gradients, and the most of what
        the optimizer's step takes for a while and the next batch, which a loop makes before it
        drops this one."""
        settings, trained = self._settings, self._trained()
        gradients = sum(parameter.nbytes for parameter in trained) - self._gradient_bytes()
        next_batch = 0 if settings.batches_ahead else storage_bytes(tensors_in((arguments, named)))
        device = str(step_device(self._model, arguments, named))
        return max(0, gradients) + max(next_batch,
                                       step_bytes(settings.optimizer, trained, device))

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


def _require_code_for(device: torch.device) -> None:
    """Raises InputError where Inductor has no backend for the device."""
    common.init_backend_registration()
    if common.get_scheduling_for_device(device.type) is None:
        raise InputError(f"Inductor generates no code for the device {device}: leave "
                         f"mode=\"inductor\" out, or move the model and its inputs to a device "
                         f"that it knows")
