"""Lightning: a callback that keeps a module within a budget of bytes.

    from lowtide.pytorch.integrations.lightning import MemoryBudget

    Trainer(callbacks=[MemoryBudget("6GiB", module="net")]).fit(model, data)
"""

from __future__ import annotations

import torch

from ... import InputError
from ..common.notices import warn
from .early_clearing import may_clear_early
from .in_place import InPlace, enable_memory_budget

try:
    from lightning.pytorch import Callback, LightningModule
except ImportError:
    try:
        from pytorch_lightning import Callback, LightningModule
    except ImportError as error:
        raise InputError(
            "this callback needs Lightning: pip install lightning") from error

__all__ = ["MemoryBudget", "enable_memory_budget"]


class MemoryBudget(Callback):
    """Takes the budget at the beginning of the training and gives it up at its end.

    ``module``: the path of the module whose calls are planned, within the LightningModule; ""
    is itself, where the training step calls ``self(...)``. ``budget`` and ``settings`` as in
    ``lowtide.wrap``; the optimizer is counted. Logs the figures of ``lowtide.metrics`` once an
    epoch, such as ``lowtide_planned_bytes`` and ``lowtide_peak_bytes``: what a step takes by its
    plan and what the last one took, existing tensors included, and in the latter what other code
    took, such as a loss outside of the module, for which the plan leaves room.

    ``when_unused``: whether a first epoch that trains and never calls the module ends with
    InputError (``"error"``) or only with the warning that its first batch gives (``"warn"``).
    """

    def __init__(self, budget: int | str | None, module: str = "", *, when_unused: str = "error",
                 **settings):
        if when_unused not in ("error", "warn"):
            raise InputError(f'when_unused must be "error" or "warn", not {when_unused!r}')
        self._budget, self._path, self._settings = budget, module, settings
        self._when_unused = when_unused
        self._in_place: InPlace | None = None
        self._is_used = self._has_warned = False
        self._may_clear = self._clears_now = False

    def on_train_start(self, trainer, pl_module):
        optimizers = trainer.optimizers
        counted = {"optimizer": optimizers[0]} if len(optimizers) == 1 else {}
        self._in_place = enable_memory_budget(self._module(pl_module), self._budget,
                                              **{**counted, **self._settings})
        self._in_place.before_call = lambda: self._see_call(trainer, pl_module)
        self._is_used = self._has_warned = False
        self._may_clear = may_clear_early(trainer, pl_module, LightningModule, Callback)

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        is_first = batch_idx % trainer.accumulate_grad_batches == 0
        self._clears_now = self._may_clear and is_first and _runs_backward(trainer)

    def _see_call(self, trainer, pl_module) -> None:
        """The module is about to be called."""
        if not trainer.training:
            return
        self._is_used = True
        # Lightning clears gradients between forward and backward pass: until then the old ones
        # would take memory beside the saved values. Hooks before the step still see them.
        is_step = getattr(pl_module, "_current_fx_name", None) == "training_step"
        if self._clears_now and is_step and torch.is_grad_enabled():
            trainer.optimizers[0].zero_grad()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        """A step without a loss says nothing yet of the module's use."""
        is_skipped = pl_module.automatic_optimization and (outputs is None or outputs == {})
        if not is_skipped and not (self._is_used or self._has_warned):
            self._has_warned = True
            then = ("" if self._when_unused == "warn" else
                    ", or the training ends with an error after this epoch. If only later epochs "
                    "call it, set when_unused=\"warn\"")
            warn(f"the budget of {self._budget} is not used yet: {self._what_to_name()}{then}")

    def _what_to_name(self) -> str:
        return (f"the training step does not call {self._path or 'the LightningModule itself'}; "
                f"name the module that it calls, as in MemoryBudget({self._budget!r}, "
                f"module=\"net\")")

    def on_train_epoch_end(self, trainer, pl_module):
        if self._has_warned and not self._is_used and self._when_unused == "error":
            raise InputError(f"the budget of {self._budget} was not used: {self._what_to_name()}")
        pl_module.log_dict({name: float(value)
                            for name, value in self._in_place.metrics.items()})

    def on_train_end(self, trainer, pl_module):
        self._give_up()

    def on_exception(self, trainer, pl_module, exception):
        if self._in_place is not None:
            self._in_place.abandon()
            self._in_place = None

    def _module(self, pl_module) -> torch.nn.Module:
        try:
            return pl_module.get_submodule(self._path)
        except AttributeError:
            names = ", ".join(name for name, _ in pl_module.named_children())
            raise InputError(
                f"{type(pl_module).__name__} has no module {self._path!r}; it has {names}"
            ) from None

    def _give_up(self) -> None:
        if self._in_place is not None:
            self._in_place.disable()
            self._in_place = None


def _runs_backward(trainer) -> bool:
    """Whether Lightning clears gradients in this batch, as it does not where a callback has the
    batches run forward alone; where a release of it does not say, they count as not cleared."""
    return not getattr(trainer.fit_loop.epoch_loop.automatic_optimization, "_skip_backward", True)
