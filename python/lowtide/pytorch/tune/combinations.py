"""All combinations of the ways that a person allows."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence

from ... import InputError
from ..budget.offload import Offload
from ..common.precision import require_precision
from ..common.stash_kinds import require_stash_kind
from .combination import Combination

#: Ways that have only to be allowed.
_WAYS = ("micro_batches", "slices", "fused_update")
#: Of the parameters on the ranks of a mesh, from many bytes on each rank to few.
SHARDINGS = ("none", "gradients", "full")
#: Numbers of micro-batches that are tried.
_MICRO_BATCHES = (1, 2, 4, 8, 16)


@dataclasses.dataclass(frozen=True)
class Allowed:
    """``precisions``: beside that of the model. ``ways``: names of ``_WAYS``. ``stashes``: kinds
    that lose something. ``offload``: where values may move. ``shardings``: on the ranks of a mesh.
    Raises InputError."""

    precisions: Sequence[str] = ("bf16",)
    ways: Sequence[str] = _WAYS
    stashes: Sequence[str] = ()
    offload: Offload | None = None
    shardings: Sequence[str] = SHARDINGS

    def __post_init__(self):
        for field in ("precisions", "ways", "stashes", "shardings"):
            names = getattr(self, field)
            if isinstance(names, str) or not isinstance(names, Iterable):
                raise InputError(f"{field} must be a tuple of names, such as (), not {names!r}")
            object.__setattr__(self, field, tuple(dict.fromkeys(names)))
        for name in self.ways:
            if name not in _WAYS:
                raise InputError(f"there is no way {name!r} to need less memory: allow some of "
                                 f"{', '.join(_WAYS)}")
        for precision in self.precisions:
            require_precision(precision)
        for stash in self.stashes:
            require_stash_kind(stash)
        for sharding in self.shardings:
            if sharding not in SHARDINGS:
                raise InputError(f"there is no sharding {sharding!r}: allow some of "
                                 f"{', '.join(SHARDINGS)}")
        if not self.shardings:
            raise InputError(f"shardings must name at least one of {', '.join(SHARDINGS)}")


def combinations(allowed: Allowed, rows: int | None, can_fuse: bool,
                 is_on_ranks: bool = False) -> Iterator[Combination]:
    """Those that change least first. ``rows``: of the batch, which must divide into micro-batches;
    None: the batch is not to be divided. ``can_fuse``: whether there is an optimizer object.
    ``is_on_ranks``: whether there is a mesh, where nothing moves."""
    numbers = [1] if rows is None or "micro_batches" not in allowed.ways else [
        number for number in _MICRO_BATCHES if rows % number == 0]
    axes: list[Sequence] = [
        [None, *allowed.precisions],
        numbers,
        ["exact", *allowed.stashes],
        [1, "auto"] if "slices" in allowed.ways else [1],
        [None] if allowed.offload is None or is_on_ranks else [None, allowed.offload],
        [False, True] if can_fuse and "fused_update" in allowed.ways else [False],
        allowed.shardings if is_on_ranks else [None],
    ]
    found = (Combination(*values) for values in itertools.product(*axes))
    return iter(sorted((one for one in found if _is_of_use(one)),
                       key=lambda one: (one.changes, one.precision is not None)))


def _is_of_use(one: Combination) -> bool:
    """Micro-batches add gradients up, which a fused update has no use for, and are slices of the
    whole model. In fp16 a scaler looks at all gradients before the update."""
    if one.fused_update and (one.micro_batches > 1 or one.precision == "fp16"):
        return False
    return one.micro_batches == 1 or one.slices == 1
