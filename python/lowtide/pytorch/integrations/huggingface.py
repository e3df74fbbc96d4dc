"""Hugging Face: a callback that keeps the model of a ``Trainer`` within a budget of bytes.

    from lowtide.pytorch.integrations.huggingface import MemoryBudget

    Trainer(model=model, args=arguments, train_dataset=data,
            callbacks=[MemoryBudget("6GiB")]).train()

For loops of one's own: ``enable_memory_budget(model, "6GiB", batch)``.
"""

from __future__ import annotations

import contextlib
import weakref

import torch

from ... import InputError
from ..common.notices import warn
from ..common.plain_optimizer import plain_optimizer
from .in_place import InPlace

try:
    from transformers import TrainerCallback, TrainerState
except ImportError as error:
    raise InputError(
        "this callback needs Hugging Face's Trainer: pip install transformers accelerate"
    ) from error

__all__ = ["MemoryBudget", "enable_memory_budget"]


def enable_memory_budget(model: torch.nn.Module, budget: int | str | None, example_inputs=None,
                         **settings) -> InPlace:
    """Trains a model within ``budget`` wherever it is called from, as ``lowtide.wrap`` does.

    ``example_inputs`` (such as a batch, a dict): the step is planned now, and InfeasibleError says
    now that the budget is too small; without them, at the first call. Returns the switch that takes
    the budget off; it is a context manager as well.
    """
    return InPlace(model, budget, example_inputs, **settings)


#: The state of the training that a budget was taken for.
_training_of: weakref.WeakKeyDictionary[InPlace, TrainerState] = weakref.WeakKeyDictionary()


def _end_interrupted(model: torch.nn.Module, state: TrainerState) -> None:
    """Gives up the budget of an earlier training of the model that an exception ended, such as an
    interrupt: callbacks are not told of that."""
    before = InPlace.of(model)
    if before is not None and _training_of.get(before, state) is not state:
        before.disable()


class MemoryBudget(TrainerCallback):
    """Takes the budget at the beginning of the training and gives it up at its end.

    ``budget`` and ``settings`` as in ``lowtide.wrap``; the trainer's optimizer is counted, and the
    batch after the one in use, which Accelerate's data loader holds already. The
    first batch is planned for when it comes, so that the data are drawn as without a budget. Logs
    gain the figures of ``lowtide.metrics``, such as ``lowtide_planned_bytes`` and
    ``lowtide_peak_bytes``: what a step takes by its plan and what the last one took, existing
    tensors included. Raises InputError for ``fused_update``: the
    trainer asks for the norm of all gradients in every step, also where it clips nothing.
    """

    def __init__(self, budget: int | str | None, **settings):
        if settings.get("fused_update"):
            raise InputError("the Trainer computes the norm of all gradients after each backward "
                             "pass, and with fused_update there are none left: leave it out, or "
                             "train in a loop of your own with enable_memory_budget")
        self._budget, self._settings = budget, settings
        self._in_place: InPlace | None = None
        self._held = contextlib.ExitStack()

    def on_train_begin(self, args, state, control, model=None, optimizer=None, **others):
        if args.torch_compile:
            warn("torch_compile=True has no effect on steps within the budget of MemoryBudget: "
                 "they run PyTorch's own kernels by plan, so that losses are those of training "
                 "without it, and differ in the last digits from those of compiled code. Leave "
                 "torch_compile out; for compiled code within a budget leave MemoryBudget out, and "
                 "train torch.compile(model, backend=\"lowtide\", dynamic=False, options="
                 "{\"mode\": \"inductor\", \"budget\": \"6GiB\"}) in a loop of your own")
        _end_interrupted(model, state)
        settings = {"optimizer": plain_optimizer(optimizer), "batches_ahead": 1, **self._settings}
        self._in_place = enable_memory_budget(model, self._budget, **settings)
        _training_of[self._in_place] = state

    def on_step_end(self, args, state, control, **others):
        self._prepare_to_save(control.should_save)

    def on_epoch_end(self, args, state, control, **others):
        self._prepare_to_save(control.should_save)

    def on_evaluate(self, args, state, control, **others):
        # With "best" it is decided after this, by the metrics.
        self._prepare_to_save(control.should_save or args.save_strategy == "best")

    def on_save(self, args, state, control, **others):
        self._held.close()

    def on_step_begin(self, args, state, control, **others):
        self._held.close()  # nothing was saved after all

    def _prepare_to_save(self, saves: bool) -> None:
        """The Trainer's first rank saves, and the others do not take part."""
        self._held.close()
        if saves and self._in_place is not None:
            self._held.enter_context(self._in_place.whole_state())

    def on_log(self, args, state, control, logs=None, **others):
        if self._in_place is None or self._in_place.memory.measured_peak == 0:
            return
        figures = self._in_place.metrics
        if logs is not None:
            logs.update(figures)
        if state.log_history:  # written before callbacks are called
            state.log_history[-1].update(figures)

    def on_train_end(self, args, state, control, **others):
        self._held.close()
        if self._in_place is not None:
            self._in_place.disable()
            self._in_place = None
