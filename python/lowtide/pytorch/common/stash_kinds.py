"""What a user may allow to be held in fewer bits between the passes."""

from __future__ import annotations

from ... import InputError

#: Nothing; what is the same bits when it is widened; activations too, as these types.
_KINDS = (None, "exact", "bf16", "fp16", "int8")


def require_stash_kind(kind: str | None) -> str | None:
    """The kind. Raises InputError for what is none."""
    if not any(kind is known or (isinstance(kind, str) and kind == known) for known in _KINDS):
        raise InputError(f"stash must be \"exact\", \"bf16\", \"fp16\", \"int8\" or None, not "
                         f"{kind!r}")
    return kind


def changes_gradients(kind: str | None) -> bool:
    """Whether activations may be held with loss."""
    return kind not in (None, "exact")
