"""Example inputs as a person gives them."""

from __future__ import annotations

from collections.abc import Mapping


def arguments_of(example_inputs: object) -> tuple[tuple, dict]:
    """Positional and named arguments: of a tuple or list, of a mapping, or of one tensor."""
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs), {}
    return (example_inputs,), {}
