"""A line of the user's code."""

from __future__ import annotations

from typing import NamedTuple


class SourceLine(NamedTuple):
    """In which ``function`` an op was called, and by which ``code``."""

    file: str
    number: int
    function: str
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}, in {self.function}: {self.code}"
