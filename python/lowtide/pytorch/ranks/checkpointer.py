"""Checkpoints of a training on many ranks, written while it goes on."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import importlib.util
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

from ... import Error, InputError
from ...arguments import checked_count
from .agreement import difference
from .checkpoint_folder import MANIFEST, CheckpointFolder, read_manifest
from .communicator import Communicator
from .errors import RankError, error_text
from .process_group import backends_of, give_back, take_group
from .together import raise_together, told_by_first
from .training_state import restore, training_state, writable

_FORMAT, _VERSION = "lowtide-checkpoint", 1
_FIELDS = {"step": int, "ranks": int, "device": str, "extra": dict, "values": dict, "tensors": dict}


@dataclasses.dataclass(frozen=True)
class Restored:
    """``step`` and ``extra`` as they were saved, on so many ``ranks``."""

    step: int
    extra: Mapping[str, Any]
    ranks: int


class Checkpointer:
    """Saves a training to a folder that all ranks see, and loads the newest checkpoint of it.

        with lowtide.Checkpointer("run", comm) as checkpoints:
            restored = checkpoints.load(model, optimizer)
            for step in range(restored.step if restored else 0, steps):
                ...
                checkpoints.save(step + 1, model, optimizer)

    Each rank writes its own part, and a part that ranks hold in common is written once, by rank 0
    (buffers, too: rank 0's count). Parts are files of safetensors, everything else is JSON, so no
    file can run code when it is loaded. A checkpoint counts when all of it is on the disk; a
    process that is killed leaves the one before. All ranks call all methods; ``save`` of a step
    waits for the one before. ``keep``: checkpoints that stay, the newest ones.
    """

    def __init__(self, folder: str | os.PathLike[str], comm: Communicator, *, keep: int = 2):
        if importlib.util.find_spec("safetensors") is None:
            raise InputError("checkpoints are files of safetensors: pip install safetensors")
        self._keep = checked_count("keep", keep, 1)
        self._folder, self._comm = CheckpointFolder(folder), comm
        self._lock: int | None = None
        self._newest_step = told_by_first(comm, self._open)
        # Files are written while the training uses its own group.
        ranks, (backend, *_) = dist.get_process_group_ranks(comm.group), backends_of(comm.group)
        self._timeout = backend.options._timeout
        self._group = take_group(ranks, self._timeout)
        self._saving: concurrent.futures.Future | None = None
        self._saving_step = 0

    def save(self, step: int, model: torch.nn.Module,
             optimizer: torch.optim.Optimizer | None = None, *,
             extra: Mapping[str, Any] | None = None) -> None:
        """Copies the state and returns; the copy is written meanwhile. With random numbers of
        PyTorch and of Python's module random, on each rank, and with ``extra``, values of JSON such
        as the position in the data, of which rank 0's count.

        ``step``: more than that of any checkpoint in the folder. Raises InputError for values that
        cannot be kept, and RankError where the checkpoint before could not be written.
        """
        self.wait()
        step = checked_count("step", step, 0)
        if self._newest_step is not None and step <= self._newest_step:
            raise InputError(f"{self._folder.path} has a checkpoint of step {self._newest_step}, "
                             f"and step {step} is not after it: load it and go on from there, or "
                             f"give this training another folder")
        state = training_state(model, optimizer, self._comm.rank, self._comm.device)
        manifest = {"format": _FORMAT, "version": _VERSION, "step": step, "ranks": self._comm.size,
                    "device": self._comm.device.type, "extra": _checked_extra(extra),
                    "values": state.json_values(), "tensors": state.signature()}
        partial = told_by_first(self._comm, lambda: str(self._folder.begin(step)))
        written = dcp.async_save(
            writable(state.tensors), process_group=self._group,
            storage_writer=dcp.HuggingFaceStorageWriter(partial, save_distributed=True),
            planner=dcp.DefaultSavePlanner(dedup_save_to_lowest_rank=True))
        self._saving, self._saving_step = self._published(written, step, manifest), step

    def wait(self) -> None:
        """Returns when the last ``save`` is on the disk on all ranks. Raises RankError, which names
        the rank and the reason, where it could not be written."""
        if self._saving is None:
            return
        saving, self._saving, error = self._saving, None, None
        try:
            saving.result()
        except (Exception, CheckpointException) as caught:
            error = self._named(caught)
        try:
            raise_together(self._comm, error, "to write a checkpoint")
        except Error:
            if self._comm.rank == 0:
                self._folder.clean()  # it may be the room on the disk that lacks
            raise
        self._newest_step = self._saving_step

    def load(self, model: torch.nn.Module,
             optimizer: torch.optim.Optimizer | None = None) -> Restored | None:
        """Loads the newest complete checkpoint into the model and the optimizer, on this number of
        ranks, whatever it was saved on; None where there is none. A rank that there was not then,
        or not on such a device, keeps its random numbers. Raises InputError for a checkpoint of
        another model."""
        self.wait()
        name = told_by_first(self._comm, self._newest_name)
        if name is None:
            return None
        state = training_state(model, optimizer, self._comm.rank, self._comm.device)
        path, error = self._folder.path / name, None
        manifest = read_manifest(path)
        try:
            _require_loadable(path, manifest, state.signature())
        except InputError as caught:
            error = caught
        raise_together(self._comm, error, "to load a checkpoint")
        had_rank = (self._comm.rank < manifest["ranks"]
                    and manifest["device"] == self._comm.device.type)
        self._read(path, {name: tensor for name, tensor in state.tensors.items()
                          if had_rank or not name.startswith("random.")})
        restore(state, manifest["values"], model, optimizer, self._comm.rank, self._comm.device)
        return Restored(manifest["step"], manifest["extra"], manifest["ranks"])

    def close(self) -> None:
        """Waits for the last checkpoint. Another training may use the folder then."""
        self.wait()
        self._release()
        if self._group is not None:
            give_back(self._group, self._timeout)
        self._group = None

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, kind, error, trace) -> None:
        if error is None:
            self.close()
        else:  # other ranks may not answer any more
            self._release()

    def _read(self, path: pathlib.Path, tensors: dict[str, torch.Tensor]) -> None:
        """Into the tensors' own memory."""
        try:
            dcp.load(tensors, process_group=self._group,
                     storage_reader=dcp.HuggingFaceStorageReader(str(path)))
        except CheckpointException as error:
            rank, cause = _first_failure(error)
            raise InputError(f"{path} cannot be read on rank {rank}: {error_text(cause)}: it is "
                             f"damaged; without this folder, the one before is loaded") from error

    def _open(self) -> int | None:
        self._lock = self._folder.locked()
        self._folder.clean()
        newest = self._folder.newest()
        return None if newest is None else _step_of(*newest)

    def _newest_name(self) -> str | None:
        newest = self._folder.newest()
        return None if newest is None else newest[0].name

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _named(self, error: BaseException) -> BaseException:
        """With the rank of the first of those errors that torch.distributed.checkpoint collects
        from all ranks."""
        if not isinstance(error, CheckpointException):
            return error
        rank, cause = _first_failure(error)
        return RankError(f"rank {rank} of {self._comm.size} failed to write a checkpoint: "
                         f"{error_text(cause)}", rank)

    def _published(self, written: concurrent.futures.Future, step: int,
                   manifest: dict) -> concurrent.futures.Future:
        """Done when the checkpoint is complete, on rank 0, which makes it so; on others when all
        ranks have written. ``written`` is done on rank 0 only when it is on all."""
        if self._comm.rank > 0:
            return written
        published: concurrent.futures.Future = concurrent.futures.Future()

        def publish(done: concurrent.futures.Future) -> None:
            try:
                done.result()
                self._folder.publish(step, manifest)
                self._folder.prune(self._keep)
                published.set_result(None)
            except (Exception, CheckpointException) as error:
                published.set_exception(error)

        written.add_done_callback(publish)
        return published


def _first_failure(error: CheckpointException) -> tuple[int, BaseException]:
    rank = min(error.failures)
    return rank, error.failures[rank][0]


def _checked_extra(extra: Mapping[str, Any] | None) -> Mapping[str, Any]:
    try:
        if not isinstance(extra or {}, Mapping):
            raise TypeError("it is not a dict")
        return json.loads(json.dumps(dict(extra or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(f"extra must be a dict of JSON's values, such as {{'epoch': 1}}: "
                         f"{error}") from error


def _step_of(path: pathlib.Path, manifest: dict) -> int:
    """Raises InputError for a manifest that this version does not write."""
    if (manifest.get("format"), manifest.get("version")) != (_FORMAT, _VERSION):
        raise InputError(f"{path} is of the format {manifest.get('format')!r}, version "
                         f"{manifest.get('version')!r}, and this Lowtide reads {_FORMAT!r}, "
                         f"version {_VERSION}: give another folder")
    wrong = [name for name, kind in _FIELDS.items() if not isinstance(manifest.get(name), kind)]
    if wrong:
        raise InputError(f"{path / MANIFEST} lacks {', '.join(wrong)}, or has something else "
                         f"there: it was not written by Lowtide; give another folder")
    return manifest["step"]


def _require_loadable(path: pathlib.Path, manifest: dict | None,
                      signature: Mapping[str, str]) -> None:
    if manifest is None:
        raise InputError(f"{path} cannot be read on this rank: give a folder that all ranks see")
    _step_of(path, manifest)
    if manifest["tensors"] != signature:
        raise InputError(f"{path} is of another model or optimizer: it has "
                         f"{difference(manifest['tensors'], signature)}. Give another folder, or "
                         f"the model and the optimizer of the checkpoint")
