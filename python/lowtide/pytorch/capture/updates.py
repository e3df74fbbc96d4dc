"""Updates of parameters as ops of a captured graph, each as soon as its gradient is complete."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch

from .captured import Output
from .document import Document

#: Its arguments: a gradient, and the parameter that it is of.
UPDATE = "lowtide::update"

_library = torch.library.Library("lowtide", "DEF")
_library.define("update(Tensor gradient, Tensor(a!) parameter) -> ()")

Update = Callable[[torch.Tensor, torch.Tensor], None]
_running: list[Update] = []


def _update(gradient: torch.Tensor, parameter: torch.Tensor) -> None:
    """Where ops are measured, nothing is updated."""
    if _running:
        _running[-1](gradient, parameter)


_library.impl("update", _update, "CompositeExplicitAutograd")


@contextlib.contextmanager
def updating(update: Update | None) -> Iterator[None]:
    """While it lasts, ``update(gradient, parameter)`` is what the op does; of one graph at a
    time. What it raises is raised as it is, not as the text that an executor makes of it."""
    if update is None:
        yield
        return
    raised: list[BaseException] = []

    def run(gradient: torch.Tensor, parameter: torch.Tensor) -> None:
        try:
            update(gradient, parameter)
        except BaseException as error:
            raised.append(error)
            raise

    _running.append(run)
    try:
        yield
    except Exception:
        if raised:
            raise raised[0] from None
        raise
    finally:
        _running.pop()


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
            document.insert_op(place + 1, _op(document, parameter, gradient.tensor))
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


def _op(document: Document, parameter: int, gradient: int) -> dict:
    return {"name": f"update of {document.records[parameter]['name']}", "type": UPDATE,
            "inputs": [gradient, parameter], "outputs": [], "mutates": [1], "cost": 0,
            "phase": "optimizer", "recomputable": False, "args": [{"tensor": 0}, {"tensor": 1}]}
