"""How much room steps leave to code that runs between them."""

from __future__ import annotations

#: Steps in a row that did not need it, after which room is given back for the first time: more than
#: most programs train between two evaluations, as a budget that is exceeded is worse than room that
#: nobody uses.
_FIRST_PATIENCE = 256


class RoomBetween:
    """As much as a step was seen to need, until a number of steps in a row needed at most half of
    it: then as much as they needed. Where room that was given back is needed again, that number
    doubles. So what comes once, such as a copy of the model, costs time for a few steps only, and
    what comes again and again, such as an evaluation, exceeds the budget ever more seldom.
    """

    def __init__(self):
        #: What is left now, in bytes.
        self.room_bytes = 0
        self._patience = _FIRST_PATIENCE
        self._was_given_back = False
        #: What was needed by each of the last steps in a row that needed at most half.
        self._needed: list[int] = []
        #: The least with which a step exceeded the budget: what takes less has room in any plan.
        self._least_exceeding: int | None = None

    def after_step(self, taken_bytes: int, *, exceeded: bool) -> int:
        """The room for the steps that follow one whose caller took so many bytes when its passes
        were over; ``exceeded``: whether the budget had no room for them."""
        if exceeded:
            least = self._least_exceeding
            self._least_exceeding = taken_bytes if least is None else min(least, taken_bytes)
        is_needed = self._least_exceeding is not None and taken_bytes >= self._least_exceeding
        self._adapt(taken_bytes if is_needed else 0)
        return self.room_bytes

    def _adapt(self, needed_bytes: int) -> None:
        if 2 * needed_bytes > self.room_bytes:
            self._needed.clear()
            if needed_bytes > self.room_bytes:
                self._take_back(needed_bytes)
        elif self.room_bytes:
            self._needed.append(needed_bytes)
            if len(self._needed) == self._patience:
                self.room_bytes, self._was_given_back = max(self._needed), True
                self._needed.clear()

    def _take_back(self, needed_bytes: int) -> None:
        self.room_bytes = needed_bytes
        if self._was_given_back:
            self._patience *= 2
            self._was_given_back = False
