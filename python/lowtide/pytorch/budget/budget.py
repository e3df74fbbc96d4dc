"""The budget of a training step, as a person gives it."""

from __future__ import annotations

import dataclasses
import math
import numbers

from ... import InputError, _core


@dataclasses.dataclass(frozen=True)
class Budget:
    """``bytes``; or ``share``, a part of what the step takes when all values are kept; with neither
    there is no limit, and every value is kept. ``text``: how it was given, for messages."""

    text: str
    bytes: int | None = None
    share: float | None = None

    @staticmethod
    def parse(given: Budget | int | float | str | None, *, may_be_share: bool = True) -> Budget:
        """Bytes, ``"6GiB"``, ``"60%"``, or no limit: None, ``"inf"``, ``float("inf")``. Raises
        InputError, which proposes a share where it may be one."""
        if isinstance(given, Budget):
            return given
        if given is None or isinstance(given, (str, numbers.Real)) and given in ("inf", math.inf):
            return Budget(str(given))
        is_number = isinstance(given, numbers.Real) and not isinstance(given, bool)
        if not (is_number and given == given or isinstance(given, str)):
            raise InputError(f"a budget is a number of bytes, a text such as \"6GiB\" or \"60%\", "
                             f"or None, not {given!r}")
        if not isinstance(given, (str, numbers.Integral)) and 0 < given <= 1:
            instead = (f"for a share of what a step takes when all values are kept, write "
                       f"\"{given:.0%}\"" if may_be_share else
                       "write bytes (800000000) or an amount (\"512MB\", \"1.5GiB\"): a share of "
                       "what a step takes makes no sense here")
            raise InputError(f"a budget of {given!r} bytes is too small for anything; {instead}")
        text = given if isinstance(given, str) else str(int(given))
        if not may_be_share and not text.rstrip().endswith("%"):
            return Budget(str(given), _core.parse_amount(text, "budget"))
        found = _core.Budget(text)
        share = None if found.percent is None else found.percent / 100
        return Budget(str(given), found.bytes, share)

    @property
    def is_unlimited(self) -> bool:
        return self.bytes is None and self.share is None

    def resolve(self, keep_all_bytes: int) -> int | None:
        """In bytes, where the step takes ``keep_all_bytes`` when all values are kept; None without
        a limit."""
        return self.bytes if self.share is None else int(self.share * keep_all_bytes)

    def __str__(self) -> str:
        return self.text
