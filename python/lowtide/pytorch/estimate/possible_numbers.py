"""Whether the numbers of a configuration of transformers are those of some model.

transformers itself makes models with 0 or -1 layers, and of a billion layers never an end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ... import InputError
from .fields import field_of

#: Of a network, what there is one of at least.
_ONE_AT_LEAST = re.compile(
    r"(num_|n_)?((hidden|encoder|decoder)_)?layers?"
    r"|(num_|n_)?((attention|key_value|encoder_attention|decoder_attention)_)?heads?"
    r"|(hidden|vocab|patch|image|embedding)_size|d_model|d_ff|n_embd"
    r"|(encoder|decoder)_ffn_dim|num_channels|max_position_embeddings|n_positions")
#: Of a network, what may be left out, and is never less than nothing. A window of -1 is the whole.
_NONE_AT_LEAST = re.compile(
    r"(?!\w*(window|chunk))((num|n)_\w+|\w+_(layers|heads|size|dim|positions|channels|experts))")
#: What a model is built of one by one.
_ONE_BY_ONE = re.compile(r"\w*layers?|depth")
#: No model has as many, and a trace would take hours.
_MOST_LAYERS = 10_000


def require_possible_numbers(fields: Mapping[str, Any], kind: Callable | None, place: str) -> None:
    """Raises InputError for a size or a number of layers that no model can have.

    ``fields``: of a configuration, as in its file. ``kind``: its class, where it is known.
    ``place``: where they stand.
    """
    for name, given, usual in _numbers(fields, _usual(kind)):
        field = name.rpartition(".")[2]
        least = _least(field, usual)
        if least is not None and given < least:
            raise InputError(f"{place}: {name} is {given}, which no model can have: write {least} "
                             f"or more{_usually(usual)}")
        if _ONE_BY_ONE.fullmatch(field) and given > _MOST_LAYERS:
            raise InputError(f"{place}: {name} is {given}, more than an estimate can trace: write "
                             f"at most {_MOST_LAYERS}{_usually(usual)}")


def _numbers(fields: Mapping[str, Any], usual: object, prefix: str = ""
             ) -> Iterator[tuple[str, int, object]]:
    """Names with those of the parts that they are in, numbers, and what the class has."""
    for name, value in fields.items():
        known = field_of(usual, str(name))  # names of labels are numbers
        if isinstance(value, Mapping):
            yield from _numbers(value, known, f"{prefix}{name}.")
        elif isinstance(value, int) and not isinstance(value, bool):
            yield f"{prefix}{name}", value, known


def _usual(kind: Callable | None) -> object:
    try:
        return None if kind is None else kind()
    except Exception:  # one that cannot do without some argument
        return None


def _least(name: str, usual: object) -> int | None:
    """None where any number may mean something, as where the class's own is none."""
    if _ONE_AT_LEAST.fullmatch(name):
        least = 1
    elif _NONE_AT_LEAST.fullmatch(name):
        least = 0
    else:
        return None
    return None if isinstance(usual, int) and usual < least else least


def _usually(usual: object) -> str:
    return f"; such a model usually has {usual}" if isinstance(usual, int) else ""
