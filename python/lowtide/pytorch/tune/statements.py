"""What a configuration says of the options of ``tune``, and which options may stand beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ... import InputError
from .combinations import Allowed

#: Options of which a configuration that asks for one value excludes the others.
_ONE_VALUE = ("precisions", "shardings")


@dataclasses.dataclass(frozen=True)
class Statement:
    """What a key says of one value of an option of ``tune``. ``holds``: it asks for the value; it
    excludes it; or, "auto", it leaves that to who starts the training."""

    key: str
    option: str
    value: str
    holds: bool | str


def allowed_beside(statements: Sequence[Statement], allowed: Allowed, moves: Sequence[str],
                   options: Mapping[str, Any]) -> Allowed:
    """``allowed``, which a configuration asks for, with the options of a call for what it says
    nothing of. ``moves``: its keys that ask for moves. Raises InputError where the configuration
    and an option contradict each other."""
    both = dataclasses.replace(allowed, **options)
    for option in options:
        if option != "offload":
            _require_no_contradiction([one for one in statements if one.option == option],
                                      option, getattr(both, option))
    if moves and both.offload != allowed.offload:
        raise InputError(f"offload and {moves[0]} of the configuration both say what may move, and "
                         f"not the same: leave offload out, or the key")
    return both


def _require_no_contradiction(statements: Sequence[Statement], option: str,
                              given: Sequence[str]) -> None:
    asked = {one.value: one.key for one in statements if one.holds is True}
    excluded = {one.value: one.key for one in statements if one.holds is False}
    for value, key in asked.items():
        if value not in given:
            raise InputError(f"{key} of the configuration asks for {value!r}, which "
                             f"{option}={given!r} leaves out: add it, leave {option} out, or "
                             f"change the key")
    for value in given:
        if value in asked:
            continue
        if option in _ONE_VALUE and asked:
            [only, *_], [key, *_] = asked, asked.values()
            raise InputError(f"{key} of the configuration asks for {only!r} alone, and "
                             f"{option}={given!r} allows {value!r} too: leave {option} out, or "
                             f"change the key")
        if value in excluded:
            raise InputError(f"{excluded[value]} of the configuration excludes {value!r}, which "
                             f"{option}={given!r} allows: leave it out, or change the key")
