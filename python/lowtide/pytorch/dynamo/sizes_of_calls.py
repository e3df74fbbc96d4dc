"""Plans all sizes that a model's calls may have before the first of them runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch._dynamo.exc import TorchRuntimeError, UserError
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

from ... import InputError
from ..autograd.session import Session
from ..common.module_state import unchanged
from ..common.prepared import Prepared
from ..sizes.size_ranges import SizeRanges, sizes_text

#: For how many parts of the ranges the model may run other code, each of which is traced.
_MOST_PARTS = 8


class SizesOfCalls:
    """``run``: runs the model by its plans, for arguments and named ones; while the session
    prepares, it raises Prepared instead."""

    def __init__(self, ranges: SizeRanges, model: torch.nn.Module, session: Session,
                 run: Callable[[Sequence, Mapping], object]):
        self._ranges, self._model, self._session, self._run = ranges, model, session, run
        self._is_prepared = False

    @contextlib.contextmanager
    def of_call(self, arguments: Sequence, named: Mapping) -> Iterator[None]:
        """Around a call of the model: the first one that needs gradients has all sizes planned.
        Raises InfeasibleError where the largest does not fit, and InputError for a first call
        outside of the ranges, or where the model is for one size alone."""
        if not torch.is_grad_enabled():
            yield
            return
        with self._ranges.marked(arguments, named):
            pass  # so that a wrong input is known before anything is traced
        if not self._is_prepared:
            self._prepare(arguments, named)
            self._is_prepared = True
        with self._ranges.marked(arguments, named):
            yield

    def _prepare(self, arguments: Sequence, named: Mapping) -> None:
        """The largest sizes first. Where the model's code or a kernel of it is chosen by size, one
        trace is for a part of them, and the rest is traced in turn."""
        for part in range(_MOST_PARTS):
            sizes = self._ranges.largest_uncovered()
            if sizes is None:
                return
            try:
                self._prepare_one(*self._ranges.resized(arguments, named, sizes), not part)
            except TorchRuntimeError as error:
                raise InputError(f"the model cannot run at {sizes_text(sizes)}, which "
                                 f"dynamic_shapes allows: name all inputs that have this size, or "
                                 f"narrow the range. {_reason(error)}") from None
            self._ranges.cover([sizes])
        if self._ranges.largest_uncovered() is not None:
            self._ranges.give_up(f"the model runs other code for more than {_MOST_PARTS} parts of "
                                 f"the sizes")

    def _prepare_one(self, arguments: Sequence, named: Mapping, is_first: bool) -> None:
        before, self._session.preparing = self._session.preparing, True
        try:
            with (unchanged(self._model),
                  self._ranges.marked(arguments, named, must_stay_open=is_first)):
                self._run(arguments, named)
        except Prepared:
            pass
        except (UserError, ConstraintViolationError) as error:
            raise InputError(f"dynamic_shapes leaves a size open that the model has one value for: "
                             f"an input that is as long has to be named too, or the code needs "
                             f"this very size. {_reason(error)}") from None
        finally:
            self._session.preparing = before


def _reason(error: Exception) -> str:
    """The line of PyTorch's error that says it, without advice for who calls PyTorch himself."""
    lines = [line.strip(" -").partition(" If you're using")[0] for line in str(error).splitlines()]
    said = ("size() = ", "specialized", "Explanation:")
    return next((line for line in lines if any(word in line for word in said)), lines[0])
