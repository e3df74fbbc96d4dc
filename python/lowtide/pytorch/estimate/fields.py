"""What a configuration of transformers has under a name."""

from __future__ import annotations

from typing import Any


def field_of(configuration: object, name: str, otherwise: Any = None) -> Any:
    """Its value; ``otherwise`` where it has none, or not one alone: a configuration whose layers
    differ raises an error of its own for a field that each layer has."""
    try:
        return getattr(configuration, name, otherwise)
    except Exception:
        return otherwise


def with_part_for_texts(configuration: Any) -> tuple[Any, ...]:
    """It, and its part for texts, which may be itself; alone where several parts read texts."""
    try:
        return configuration, configuration.get_text_config()
    except ValueError:
        return (configuration,)


def with_parts(configuration: Any) -> tuple[Any, ...]:
    """It, and the configurations within it, that of images first."""
    within = [value for name, value in vars(configuration).items()
              if hasattr(value, "to_diff_dict") and name != "vision_config"]
    vision = field_of(configuration, "vision_config")
    return (configuration, *([] if vision is None else [vision]), *within)
