"""What is chosen by the budget, and chosen again for another one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

Undo = Callable[[], None]

#: Chooses again. It adds to the list what is to be done if the old budget stays, and raises
#: InfeasibleError where there is nothing to choose.
ChooseAgain = Callable[[list[Undo]], None]


class Choices:
    """Those of a model's graphs, in the order in which they were made."""

    def __init__(self):
        self._all: list[ChooseAgain] = []

    def add(self, choose: ChooseAgain) -> None:
        self._all.append(choose)

    def clear(self) -> None:
        self._all.clear()

    @contextlib.contextmanager
    def again(self, keep_budget: Undo) -> Iterator[Callable[[], None]]:
        """Gives what makes all of them again. Where that, or what follows while it lasts, raises
        something, ``keep_budget`` is called, and they are as before."""
        undo: list[Undo] = []

        def choose() -> None:
            for one in tuple(self._all):
                one(undo)

        try:
            yield choose
        except BaseException:
            for put_back in [keep_budget, *reversed(undo)]:
                put_back()
            raise
