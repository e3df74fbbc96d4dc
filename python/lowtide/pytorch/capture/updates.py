"""Updates of parameters as ops of a captured graph, each as soon as its gradient is complete."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch

from ...interruptible import no_interrupt_lost
from .captured import Output
from .document import Document

#: Its arguments: a gradient, and the parameter that it is of.
UPDATE = "lowtide::update"

_library = torch.library.Library("lowtide", "DEF")
_library.define("update(Tensor gradient, Tensor(a!) parameter) -> ()")


class Updates(Protocol):
    """What ops of a graph do for one backward pass."""

    def update(self, gradient: torch.Tensor, data: torch.Tensor) -> None:
        """Updates the parameter with these data."""

    def norms_to_clip_by(self, norms: Sequence[torch.Tensor],
                         data: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Of the norms of gradients, those that count in the total norm, in the order in which
        they do. Called before any update."""

    def take_total_norm(self, norm: torch.Tensor) -> None:
        """Called before any update, with a tensor that is gone after the pass."""


class GradientVisit:
    """Updates that change nothing: ``visit(gradient, data)`` sees each gradient, clipped where the
    graph clips, with the data of its parameter."""

    def __init__(self, visit: Callable[[torch.Tensor, torch.Tensor], None]):
        self.update = visit

    def norms_to_clip_by(self, norms: Sequence[torch.Tensor],
                         data: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        return norms

    def take_total_norm(self, norm: torch.Tensor) -> None:
        """It is of no use here."""


_running: list[Updates] = []


def running_updates() -> Updates | None:
    """None where ops are measured: nothing is updated then."""
    return _running[-1] if _running else None


def _update(gradient: torch.Tensor, parameter: torch.Tensor) -> None:
    """The copy of a gradient that is laid out in another way is measured with the op."""
    updates, accumulated = running_updates(), _as_accumulated(gradient, parameter)
    if updates is not None:
        updates.update(accumulated, parameter)


def _as_accumulated(gradient: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Laid out as autograd does before it becomes ``.grad``: as the parameter. Optimizers copy it
    otherwise, or give their state its layout."""
    if gradient.layout != torch.strided or gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter, dtype=gradient.dtype).copy_(gradient)


_library.impl("update", _update, "CompositeExplicitAutograd")


@contextlib.contextmanager
def updating(updates: Updates) -> Iterator[None]:
    """While it lasts, ``updates`` says what the ops do; of one graph at a time. What it raises is
    raised as it is, not as the text that an executor makes of it."""
    noting = _Noting(updates)
    _running.append(noting)
    try:
        with no_interrupt_lost():
            yield
    except Exception:
        if noting.raised is not None:
            raise noting.raised from None
        raise
    finally:
        _running.pop()


class _Noting:
    """Keeps what is raised."""

    def __init__(self, updates: Updates):
        self._updates = updates
        self.raised: BaseException | None = None

    def update(self, gradient: torch.Tensor, data: torch.Tensor) -> None:
        with self._noted():
            self._updates.update(gradient, data)

    def norms_to_clip_by(self, norms: Sequence[torch.Tensor],
                         data: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        with self._noted():
            return self._updates.norms_to_clip_by(norms, data)

    def take_total_norm(self, norm: torch.Tensor) -> None:
        with self._noted():
            self._updates.take_total_norm(norm)

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.raised = error
            raise


def add_updates(document: Document, boundary: int, parameters: Sequence[int | None],
                gradients: Sequence[Output]) -> list[Output]:
    """Adds an op for each parameter whose gradient an op behind the boundary makes, behind all that
    reads the parameter. Returns what is left to be returned of the gradients.

    ``boundary``: the position of that op. ``parameters``: by primal, its tensor, or None.
    """
    left = list(gradients)
    counts = [gradient.tensor for gradient in gradients]
    for position, (parameter, gradient) in enumerate(zip(parameters, gradients)):
        if parameter is None or gradient.tensor is None or counts.count(gradient.tensor) > 1:
            continue
        if 0 in document.records[parameter]["shape"]:  # all such are at one address
            continue
        place = _place(document, parameter, gradient.tensor)
        if place > boundary:
            document.insert_op(place + 1, update_op(document, parameter, gradient.tensor))
            left[position] = Output()
    return left


def _place(document: Document, parameter: int, gradient: int) -> int:
    """The last op that makes the gradient or reads the parameter; -1 where the gradient is made by
    none, as one that is a resident."""
    made = {document.storage(parameter), document.storage(gradient)}
    if document.records[document.storage(gradient)]["kind"] != "value":
        return -1
    return max((index for index, op in enumerate(document.ops)
                if gradient in op["outputs"]
                or any(document.storage(read) in made for read in op["inputs"])), default=-1)


def update_op(document: Document, parameter: int, gradient: int) -> dict:
    return {"name": f"update of {document.records[parameter]['name']}", "type": UPDATE,
            "inputs": [gradient, parameter], "outputs": [], "mutates": [1], "cost": 0,
            "phase": "optimizer", "recomputable": False, "args": [{"tensor": 0}, {"tensor": 1}]}
