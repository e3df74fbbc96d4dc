"""Lightning: a callback that keeps a module within a budget of bytes.

    from lowtide.pytorch.integrations.lightning import MemoryBudget

    Trainer(callbacks=[MemoryBudget("6GiB", module="net")]).fit(model, data)
"""

from __future__ import annotations

import torch

from ... import InputError
from .in_place import InPlace, enable_memory_budget

try:
    from lightning.pytorch import Callback
except ImportError:
    try:
        from pytorch_lightning import Callback
    except ImportError as error:
        raise InputError(
            "this callback needs Lightning: pip install lightning") from error

__all__ = ["MemoryBudget", "enable_memory_budget"]


class MemoryBudget(Callback):
    """Takes the budget at the beginning of the training and gives it up at its end.

    ``module``: the path of the module whose calls are planned, within the LightningModule; ""
    is itself, where the training step calls ``self(...)``. ``budget`` and ``settings`` as in
    ``lowtide.wrap``; the optimizer is counted. Logs ``lowtide_planned_bytes`` and
    ``lowtide_peak_bytes`` once an epoch: what a step takes by its plan and what the last one took,
    existing tensors included, and in the latter what other code took, such as a loss outside of the
    module, for which the plan leaves room.
    """

    def __init__(self, budget: int | str | None, module: str = "", **settings):
        self._budget, self._path, self._settings = budget, module, settings
        self._in_place: InPlace | None = None

    def on_train_start(self, trainer, pl_module):
        optimizers = trainer.optimizers
        counted = {"optimizer": optimizers[0]} if len(optimizers) == 1 else {}
        self._in_place = enable_memory_budget(self._module(pl_module), self._budget,
                                              **{**counted, **self._settings})

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        """Lightning clears gradients between forward and backward pass: until then the old ones
        would take memory beside what is saved."""
        if pl_module.automatic_optimization and batch_idx % trainer.accumulate_grad_batches == 0:
            for optimizer in trainer.optimizers:
                optimizer.zero_grad()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if not self._in_place.was_called:
            raise InputError(
                f"the budget of {self._budget} was not used: the training step does not call "
                f"{self._path or 'the LightningModule itself'}; name the module that it calls, as "
                f"in MemoryBudget({self._budget!r}, module=\"net\")")

    def on_train_epoch_end(self, trainer, pl_module):
        memory = self._in_place.memory
        pl_module.log_dict({"lowtide_planned_bytes": float(memory.planned_peak),
                            "lowtide_peak_bytes": float(memory.measured_peak)})

    def on_train_end(self, trainer, pl_module):
        self._give_up()

    def on_exception(self, trainer, pl_module, exception):
        self._give_up()

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
