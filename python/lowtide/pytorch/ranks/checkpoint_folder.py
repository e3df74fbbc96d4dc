"""The folder of a training's checkpoints: each is a folder that appears whole or not at all.

    run/step-00000100/checkpoint.json            what it holds, written last
                      shard-00001-....safetensors
    run/.step-00000200.partial/                  being written, or left by a process that was killed
    run/.step-00000050.removed/                  being removed

A checkpoint is written in a partial folder. Once all of it is on the disk, the folder is renamed,
which a file system does at once or not at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil

from ... import InputError

MANIFEST = "checkpoint.json"
_COMPLETE = re.compile(r"step-(\d{8,})")
_LEFT = re.compile(r"\.step-(\d{8,})\.(?:partial|removed)")
_LOCK = ".lock"


class CheckpointFolder:
    """Paths and changes of the folder; only one rank may call what changes it."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = pathlib.Path(path)

    def locked(self) -> int:
        """Makes the folder. Other trainings are kept out until the file whose number is returned
        is closed, or this process ends. Raises InputError where one is in."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path / _LOCK, os.O_WRONLY | os.O_CREAT, 0o666)
        except OSError as error:
            raise InputError(f"{self.path} cannot hold checkpoints: {error}: give a folder that "
                             f"can be written to") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            raise InputError(f"another training writes its checkpoints to {self.path}: end it, or "
                             f"give this one another folder") from error
        return file

    def partial(self, step: int) -> pathlib.Path:
        return self.path / f".step-{step:08d}.partial"

    def begin(self, step: int) -> pathlib.Path:
        """An empty folder to write the checkpoint of a step in."""
        partial = self.partial(step)
        _remove(partial)
        partial.mkdir()
        return partial

    def publish(self, step: int, manifest: dict) -> None:
        """Makes the partial checkpoint of a step complete. Its files are on the disk; ``manifest``
        gains their sizes."""
        partial, complete = self.partial(step), self.path / f"step-{step:08d}"
        files = {file.name: file.stat().st_size for file in partial.iterdir()}
        with open(partial / MANIFEST, "w") as file:
            json.dump({**manifest, "files": files}, file)
            file.flush()
            os.fsync(file.fileno())
        _sync(partial)
        if complete.exists():  # damaged, as trainings go on from the newest that is not
            self._discard(complete)
        os.rename(partial, complete)
        _sync(self.path)

    def prune(self, keep: int) -> None:
        """Removes all but the newest ``keep`` complete checkpoints."""
        for path in self._by_step(_COMPLETE)[keep:]:
            self._discard(path)

    def clean(self) -> None:
        """Removes what killed processes left."""
        for path in self._by_step(_LEFT):
            _remove(path)

    def newest(self) -> tuple[pathlib.Path, dict] | None:
        """The newest complete checkpoint and its manifest; one that lacks files is passed over."""
        for path in self._by_step(_COMPLETE):
            manifest = read_manifest(path)
            if manifest is not None:
                return path, manifest
        return None

    def _by_step(self, pattern: re.Pattern) -> list[pathlib.Path]:
        """The newest first."""
        names = [found for found in map(pattern.fullmatch, os.listdir(self.path)) if found]
        return [self.path / found[0] for found in sorted(names, key=lambda found: -int(found[1]))]

    def _discard(self, complete: pathlib.Path) -> None:
        """First to a name that no load takes for complete."""
        removed = complete.with_name(f".{complete.name}.removed")
        _remove(removed)
        os.rename(complete, removed)
        _remove(removed)


def read_manifest(path: pathlib.Path) -> dict | None:
    """Of a checkpoint; None where it cannot be read or a file has not the size that it says."""
    with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError, TypeError):
        manifest = json.loads((path / MANIFEST).read_text())
        sizes = manifest["files"].items()
        if all(os.sep not in name and (path / name).stat().st_size == size for name, size in sizes):
            return manifest
    return None


def _remove(folder: pathlib.Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _sync(folder: pathlib.Path) -> None:
    """Writes the names in a folder to the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
