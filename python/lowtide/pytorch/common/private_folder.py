"""Folders of a cache: for one user alone, so that nobody else decides what is read there."""

from __future__ import annotations

import contextlib
import os
import pathlib
import stat
import tempfile
import time
from collections.abc import Sequence

_OWNERS = 0o700
#: Begins the name of a file that is not yet written whole.
_PARTIAL = ".partial-"
#: After so many seconds nobody writes it any more: the process was killed.
_OLD = 3600.0


def is_private(folder: pathlib.Path) -> bool:
    """Whether no other user can have written there. A folder that is not there is private."""
    try:
        status = os.stat(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not others_write


def write_private(folders: Sequence[pathlib.Path], name: str, text: str) -> None:
    """Replaces a file in the last of these folders, each within the one before, in one step. They
    are made for this user where they are not there. Raises OSError, also where another user may
    write in one of them."""
    for folder in folders:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=_OWNERS, exist_ok=True)
        if not is_private(folder):
            raise PermissionError(f"another user may write in {folder}")
    _remove_old_partials(folders[-1])
    number, partial = tempfile.mkstemp(prefix=_PARTIAL, dir=folders[-1])  # for this user alone
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(partial, folders[-1] / name)
    except BaseException:
        os.unlink(partial)
        raise


def _remove_old_partials(folder: pathlib.Path) -> None:
    for partial in folder.glob(f"{_PARTIAL}*"):
        with contextlib.suppress(OSError):  # another process removes it too
            if time.time() - partial.lstat().st_mtime > _OLD:
                partial.unlink()
