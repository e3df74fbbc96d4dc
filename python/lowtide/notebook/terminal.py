"""What IPython shows in a terminal, where a notebook has a table."""

from __future__ import annotations

from typing import Any


def as_printed(shown: Any, printer: Any, cycle: bool) -> None:
    """IPython's ``_repr_pretty_`` of values whose text is a table or a sentence."""
    printer.text(str(shown))
