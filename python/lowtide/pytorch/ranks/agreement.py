"""Whether all ranks say the same, and which rank says something else, and in what."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence

import torch

from .calls import tensor_text

#: Lines that one message names of a rank that differs.
_MOST = 3


def described(values: Mapping[str, object]) -> dict[str, str]:
    """By path, what each value is: shapes and types of tensors and of a module's parameters and
    buffers, texts of numbers, names of classes and functions; containers by their elements."""
    return dict(_lines(values, ""))


def digest(lines: Mapping[str, str]) -> bytes:
    """32 bytes that are equal for equal lines."""
    text = "\n".join(f"{name}\t{lines[name]}" for name in sorted(lines))
    return hashlib.sha256(text.encode()).digest()


def disagreement(of_ranks: Sequence[Mapping[str, str]]) -> str | None:
    """A sentence that names the ranks that differ from the most ranks, and in which lines; None
    where all agree. The same for every rank that has the same lines."""
    keys = [tuple(sorted(lines.items())) for lines in of_ranks]
    counts = collections.Counter(keys)
    if len(counts) == 1:
        return None
    usual = max(counts, key=lambda key: (counts[key], -keys.index(key)))
    model = keys.index(usual)
    parts = [f"rank {rank} has {difference(lines, of_ranks[model])}"
             for rank, lines in enumerate(of_ranks) if keys[rank] != usual]
    return f"{'; '.join(parts)} (rank {model})"


def difference(lines: Mapping[str, str], usual: Mapping[str, str]) -> str:
    """The first lines that are not as usual; the two are not equal."""
    names = [name for name in sorted({*lines, *usual}) if lines.get(name) != usual.get(name)]
    parts = [f"{name} = {lines.get(name, 'nothing')} instead of {usual.get(name, 'nothing')}"
             for name in names[:_MOST]]
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(parts) + more


def _lines(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, torch.nn.Module):
        for name, tensor in itertools.chain(value.named_parameters(), value.named_buffers()):
            yield _below(path, name), tensor_text(tensor)
    elif isinstance(value, torch.optim.Optimizer):
        yield path, type(value).__qualname__
        yield from _lines(value.defaults, path)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _lines(getattr(value, field.name), _below(path, field.name))
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _lines(inner, _below(path, str(name)))
    elif isinstance(value, (list, tuple)):
        yield path, f"{len(value)} elements"
        for number, inner in enumerate(value):
            yield from _lines(inner, _below(path, str(number)))
    else:
        yield path, _text(value)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _text(value: object) -> str:
    """Not the address that the text of an object may have."""
    if isinstance(value, torch.Tensor):
        return tensor_text(value)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    named = value if isinstance(value, type) or callable(value) else type(value)
    return getattr(named, "__qualname__", type(value).__qualname__)
