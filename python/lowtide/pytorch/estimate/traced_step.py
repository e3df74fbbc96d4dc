"""A training step of eager PyTorch on fake tensors, and the memory that it would take.

Fake tensors have shapes, dtypes and lives, and no memory. Autograd runs on them as on others, so
that what is saved for the backward pass, and when it is let go, is what eager PyTorch does.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode

from ... import InputError
from ..capture.user_line import at_line_of_error
from ..common.inputs import tensors_in
from .fake_step import FakeStep
from .gradient_sums import GradientSums
from .grouped_products import GROUPED, grouped_product
from .known_values import KnownValues
from .ledger import Ledger, Peak, sum_by
from .op_peaks import OpPeaks

#: By the phase of a step: the part of its memory that tensors made in it are, unless they turn out
#: to be something that lasts.
_PART_OF = {"forward": "activations", "backward": "gradients of activations", "optimizer": "update"}


@dataclasses.dataclass(frozen=True)
class TracedStep:
    """Bytes of a step. ``whole``: of each part in full, whenever it is there; ``by_layer`` and
    ``by_kind``: of the activations that are there when the forward pass is over; ``at_peak``: by
    part, adding up to the peak."""

    whole: dict[str, int]
    by_layer: dict[str, int]
    by_kind: dict[str, int]
    at_peak: dict[str, int]
    peak: Peak


class _Watch(TorchDispatchMode):
    """Writes what ops make into a ledger; ``layer`` and ``phase`` are those of the moment."""

    def __init__(self, ledger: Ledger, op_peaks: OpPeaks | None, known: KnownValues):
        super().__init__()
        self.phase = "forward"
        self.layers = [""]
        self._ledger, self._op_peaks, self._known = ledger, op_peaks, known
        self._sums = GradientSums(ledger)

    def __torch_dispatch__(self, op, types, arguments=(), named=None):
        named = named or {}
        ledger = self._ledger
        before = ledger.bytes
        is_in_place = self.phase == "backward" and self._sums.may_be_in_place(op, arguments)
        result = self._result(op, arguments, named)
        ledger.time += 1
        for made in tensors_in(result):
            ledger.add(made, _PART_OF[self.phase], self.layers[-1], _kind_of(op))
        if is_in_place:  # counts from the next op on, where the gradient under it is gone
            return result
        highest = ledger.bytes
        if self._op_peaks is not None and not op.is_view:
            highest = max(highest, before + self._op_peaks.bytes(op, arguments, named))
        ledger.note(highest, _kind_of(op), self.phase)
        return result

    def _result(self, op, arguments, named):
        """Optimizers read numbers such as norms, on which none of their memory depends."""
        if op is GROUPED:
            return grouped_product(*arguments, **named)
        try:
            result = op(*arguments, **named)
        except (DataDependentOutputException, DynamicOutputShapeException):
            known = self._known.answer(op, arguments, named)
            if known is not None:
                return known
            if self.phase == "optimizer" and op is torch.ops.aten._local_scalar_dense.default:
                return 1.0
            raise
        self._known.follow(op, arguments, named, result)
        return result


def trace_step(step: FakeStep, op_peaks: OpPeaks | None) -> TracedStep:
    """The memory of a step that finds the optimizer's state there, as all but the first do.

    ``op_peaks``: measures workspaces; None leaves them out. Raises InputError for a step that
    depends on the values of tensors other than its batch.
    """
    ledger = Ledger()
    watch = _Watch(ledger, op_peaks, KnownValues(step.known))
    _add_what_is_there(ledger, step)
    with _refusals(), step.mode, watch, _following_layers(step, watch):
        if step.optimizer is not None:
            _run(step, watch)
            ledger.rename(_state_tensors(step.optimizer), "optimizer state")
        ledger.forget_peak()
        ledger.note(ledger.bytes, "", "forward")
        loss = _forward(step, watch)
        activations = [held for held in ledger.live() if held.part == "activations"]
        _backward(loss, watch)
        del loss
        gradients = [parameter.grad for parameter in step.parameters
                     if parameter.grad is not None]
        ledger.rename(gradients, "gradients")
        whole = sum_by(lambda held: held.part, ledger.live())
        _update(step, watch)
    whole["activations"] = sum(held.bytes for held in activations)
    return TracedStep(whole, sum_by(lambda held: held.layer, activations),
                      sum_by(lambda held: held.kind, activations), ledger.at_peak(), ledger.peak)


def _add_what_is_there(ledger: Ledger, step: FakeStep) -> None:
    for part, tensors in (("parameters", step.parameters), ("buffers", step.buffers),
                          ("batch", step.batch)):
        for tensor in tensors:
            ledger.add(tensor, part)


def _run(step: FakeStep, watch: _Watch) -> None:
    """A whole step, which ends without gradients."""
    _backward(_forward(step, watch), watch)
    _update(step, watch)
    step.optimizer.zero_grad(set_to_none=True)


def _forward(step: FakeStep, watch: _Watch) -> Sequence[torch.Tensor]:
    watch.phase = "forward"
    with step.context():
        return _to_differentiate(step.call(*step.arguments, **step.named))


def _backward(results: Sequence[torch.Tensor], watch: _Watch) -> None:
    """A single number is the loss; for others, gradients of their size come from outside."""
    watch.phase = "backward"
    gradients = [None if result.numel() == 1 else torch.ones_like(result) for result in results]
    torch.autograd.backward(results, gradients)


def _update(step: FakeStep, watch: _Watch) -> None:
    watch.phase = "optimizer"
    if step.optimizer is not None:
        step.optimizer.step()


def _to_differentiate(output: object) -> list[torch.Tensor]:
    """The loss, where a model gives one by this name; else all that has a gradient."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        return [loss]
    found = [tensor for tensor in tensors_in(output) if tensor.requires_grad]
    if not found:
        raise InputError("nothing that the model returns needs a gradient, so there is no training "
                         "step to estimate: give it labels, or return a loss or its results in a "
                         "tensor, a tuple or a dict")
    return found


def _state_tensors(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [value for state in optimizer.state.values() for value in state.values()
            if isinstance(value, torch.Tensor)]


@contextlib.contextmanager
def _following_layers(step: FakeStep, watch: _Watch) -> Iterator[None]:
    """Tells the watch which module runs."""
    handles = []
    for path, module in step.modules.items():
        if isinstance(module, torch.jit.ScriptModule):
            continue
        handles += [
            module.register_forward_pre_hook(
                lambda *_, path=path: watch.layers.append(path), prepend=True),
            module.register_forward_hook(lambda *_: _left(watch), always_call=True)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _left(watch: _Watch) -> None:
    watch.layers.pop()


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Errors of fake tensors, in words for the user."""
    try:
        yield
    except (DataDependentOutputException, DynamicOutputShapeException,
            UnsupportedOperatorException) as error:
        raise InputError(
            f"the step cannot be estimated, as {error.func} gives what depends on the values of "
            f"tensors, and an estimate knows those alone that follow from a batch with memory"
            f"{at_line_of_error(error)}: give example inputs that are not on the device meta, "
            f"leave out what asks for values of activations, or run a step, and see model.memory "
            f"of model = lowtide.wrap(model, inputs)") from error
    except AssertionError as error:
        if "convert all Tensors to FakeTensors" not in str(error):
            raise
        raise InputError("the function uses tensors that are not among its arguments, and an "
                         "estimate must not change them: give the module that has them, one of its "
                         "methods, or pass them as inputs") from error


def _kind_of(op: torch._ops.OpOverload) -> str:
    return op.overloadpacket.__name__
