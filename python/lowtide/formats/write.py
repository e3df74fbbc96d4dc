"""By the name of a file or of a format, what is written."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

from .. import InputError
from .buffers import buffers_csv
from .dot import plan_dot
from .shown_plan import ShownPlan
from .snapshot import snapshot_pickle
from .trace import planned_trace

PAGE = "page"
_MAKERS = {"trace": planned_trace, "snapshot": snapshot_pickle, "dot": plan_dot,
           "csv": buffers_csv}
FORMATS = (PAGE, *_MAKERS)
_BY_SUFFIX = {".html": PAGE, ".htm": PAGE, ".json": "trace", ".pickle": "snapshot",
              ".pkl": "snapshot", ".dot": "dot", ".gv": "dot", ".csv": "csv"}


def checked_format(format: str | None, path: str | os.PathLike[str]) -> str:
    """``"page"`` or another format; by the suffix of the file where None is given, of which all
    that are not known are a page's."""
    if format is None:
        return _BY_SUFFIX.get(pathlib.Path(path).suffix.lower(), PAGE)
    if format not in FORMATS:
        raise InputError(f"format must be {', '.join(FORMATS)}, or None for that of the "
                         f"file's suffix, not {format!r}")
    return format


def write_plans(shown: Sequence[ShownPlan], path: str | os.PathLike[str],
                format: str) -> pathlib.Path:
    """Where it was written. ``format``: none that is a page. Raises InputError where nothing can
    be written."""
    content, target = _MAKERS[format](shown), pathlib.Path(path)
    try:
        target.write_bytes(content)
    except OSError as error:
        raise InputError(f"the {format} cannot be written to {target}: {error.strerror}") from None
    return target
