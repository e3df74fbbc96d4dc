"""Reads a configuration of DeepSpeed."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ... import InputError
from ..budget.offload import HOST, Offload
from .combinations import SHARDINGS, Allowed
from .deepspeed_keys import (
    ELSEWHERE,
    ZERO_ON_RANKS,
    is_count,
    not_known,
    notes_in,
    require_value,
    require_zero_value,
)
from .statements import Statement, allowed_beside

_NOTHING_TO_SHARD = "between ranks: one process has nothing to share out"
_ALWAYS = "always so: every value has a planned address in one block"
_SCALED = "scale the loss by torch.amp.GradScaler"


@dataclasses.dataclass(frozen=True)
class Adopted:
    """``allowed``: the ways that the configuration asks for. ``notes``: by key, what it means here,
    or why nothing. ``moves``: the keys that ask for moves to slower memory. ``statements``: what
    the keys say of the other options of ``tune``."""

    allowed: Allowed
    notes: Mapping[str, str]
    moves: Sequence[str] = ()
    statements: Sequence[Statement] = ()

    def on_ranks(self) -> Adopted:
        """The same on the ranks of a mesh, where nothing moves."""
        moves = dict.fromkeys(self.moves, "not done: nothing moves on the ranks of a mesh")
        return dataclasses.replace(self, allowed=dataclasses.replace(self.allowed, offload=None),
                                   notes={**self.notes, **moves}, moves=())

    def beside(self, options: Mapping[str, Any]) -> Adopted:
        """With options of ``tune`` for what the configuration says nothing of, or leaves open.
        Raises InputError for one that contradicts it."""
        left_open = {one.key: f"\"auto\": {one.option} of the call decides"
                     for one in self.statements if one.holds == "auto" and one.option in options}
        return dataclasses.replace(
            self, allowed=allowed_beside(self.statements, self.allowed, self.moves, options),
            notes={**self.notes, **left_open})

    def __str__(self) -> str:
        return "\n".join(f"{key}: {text}" for key, text in self.notes.items())


def from_deepspeed(configuration: Mapping | str | os.PathLike[str]) -> Adopted:
    """What the keys of a configuration of DeepSpeed mean for the memory of one process.

    ``configuration``: a dict, or the path of its JSON file. Keys that concern nothing here, such as
    logging, are named in the notes too. Raises InputError for a file that cannot be read, and for
    values that are none of DeepSpeed's.
    """
    given = _read(configuration)
    reader = _KeyReader()
    for key, value in given.items():
        reader.read(str(key), value)
    return reader.adopted()


class _KeyReader:
    """Collects what the keys ask for."""

    def __init__(self):
        self._statements: list[Statement] = []
        self._offload: dict[str, Any] = {}
        self._places: dict[str, str] = {}  # by key: where it asks values to move
        self._batch: dict[str, int] = {}  # sizes of batches, and numbers of them, by key
        self._notes: dict[str, str] = {}

    def read(self, key: str, value: Any) -> None:
        readers: dict[str, Callable[[str, Any], None]] = {
            "bf16": self._precision, "bfloat16": self._precision, "fp16": self._precision,
            "torch_autocast": self._autocast, "amp": self._amp,
            "gradient_accumulation_steps": self._accumulation,
            "zero_optimization": self._zero,
            "activation_checkpointing": self._checkpointing,
        }
        require_value(key, value)
        if key in _SIZES_OF_BATCH and is_count(value):
            self._batch[key] = value
        if key in readers:
            readers[key](key, value)
        elif key in _OTHERS:
            self._notes[key] = _OTHERS[key]
        elif key in ELSEWHERE:
            self._notes[key] = "of no meaning to the memory of a step"
        else:
            self._notes[key] = not_known(key, {*readers, *_OTHERS, *ELSEWHERE}, "at the top")

    def adopted(self) -> Adopted:
        enabled = self._values("precisions", True)
        if len(set(enabled)) > 1:
            raise InputError("a configuration of DeepSpeed enables one of bf16 and fp16, not both")
        self._divide_batch()
        allowed = Allowed(
            precisions=enabled or self._values("precisions", "auto"),
            ways=self._values("ways", True, "auto"), offload=self._offload_to_places(),
            shardings=self._values("shardings", True, "auto") or ("none",))
        return Adopted(allowed, self._notes, tuple(self._places), tuple(self._statements))

    def _say(self, key: str, option: str, value: str, holds: bool | str) -> None:
        self._statements.append(Statement(key, option, value, holds))

    def _values(self, option: str, *holding: bool | str) -> tuple[str, ...]:
        return tuple(one.value for one in self._statements
                     if one.option == option and one.holds in holding)

    def _divide_batch(self) -> None:
        """DeepSpeed works the number of micro-batches out where it is not given. Raises InputError
        for sizes that fit no number of ranks."""
        whole, micro, parts = (self._batch.get(key) for key in _SIZES_OF_BATCH)
        if whole is None:
            return
        if whole % ((micro or 1) * (parts or 1)) != 0:
            others = " * ".join(key for key in _SIZES_OF_BATCH[1:] if key in self._batch)
            raise InputError(f"train_batch_size is {others} * the number of ranks, so that {whole} "
                             f"is not possible with {(micro or 1) * (parts or 1)}: change one")
        if micro is not None and micro < whole and parts is None:
            self._say("train_micro_batch_size_per_gpu", "ways", "micro_batches", True)
            self._notes["train_micro_batch_size_per_gpu"] = (
                f"micro-batches are tried: train_batch_size is {whole // micro} times as much")

    def _offload_to_places(self) -> Offload | None:
        """A folder that is named, the last of several; beside it the host's memory, where that is
        asked for and the device has its own."""
        if not self._places:
            return None
        places = list(self._places.values())
        named = [place for place in places if place != _place()]
        if not named:
            return Offload(_place(), **self._offload)
        folder, has_two = named[-1], HOST in places
        for key, place in self._places.items():
            if has_two:
                self._notes[key] += (f"; the plan divides what moves between the host's memory and "
                                     f"{folder!r}")
            elif place != folder:
                self._notes[key] += f"; all that moves goes to one place, {folder!r}"
        if has_two:
            return Offload(HOST, disk=folder, **self._offload)
        return Offload(folder, **self._offload)

    def _precision(self, key: str, value: object) -> None:
        name = "fp16" if key == "fp16" else "bf16"
        for one, number in _section(key, value).items():
            require_value(f"{key}.{one}", number)
        self._note_section(key, key, value)
        fixed = _section(key, value).get("loss_scale")
        self._notes[key] = self._allow(
            key, value, name,
            f"multiply the loss by {fixed}, and divide gradients by it before the update"
            if fixed and fixed != "auto" else f"{_SCALED}, whose init_scale is 2 ** "
                                              f"initial_scale_power")

    def _autocast(self, key: str, value: object) -> None:
        self._note_section(key, key, value)
        dtype = _section(key, value).get("dtype") or "bfloat16"
        if dtype not in ("bfloat16", "float16"):
            raise InputError(f"{key}.dtype is \"bfloat16\" or \"float16\", not {dtype!r}")
        self._notes[key] = self._allow(key, value, "fp16" if dtype == "float16" else "bf16")

    def _amp(self, key: str, value: object) -> None:
        self._note_section(key, key, value)
        level = _section(key, value).get("opt_level")
        require_value(f"{key}.opt_level", level)
        self._notes[key] = ("off: O0 computes in the type of the parameters" if level == "O0" else
                            self._allow(key, value, "fp16"))

    def _allow(self, key: str, value: object, precision: str, scale: str = _SCALED) -> str:
        """Where it is on; or where it may be, and nothing else is."""
        enabled = _enabled(key, value)
        if enabled is not None:
            self._say(key, "precisions", precision, enabled)
        if not enabled:
            return "off"
        scaled = f": {scale}" if precision == "fp16" else ""
        tried = ("; \"auto\" is tried where no other precision is on" if enabled == "auto" else "")
        return f"precision={precision!r}, as under torch.autocast{scaled}{tried}"

    def _note_section(self, key: str, section: str, value: object) -> None:
        for name, note in notes_in(section, _section(key, value)).items():
            self._notes[f"{key}.{name}"] = note

    def _accumulation(self, key: str, value: Any) -> None:
        if value is not None:
            self._say(key, "ways", "micro_batches", value if value == "auto" else value > 1)
        if value == "auto" or (value or 1) > 1:
            self._notes[key] = "micro-batches are tried, in numbers that divide the batch"
        else:
            self._notes[key] = "the batch as a whole"

    def _zero(self, key: str, value: object) -> None:
        settings = {"stage": int(value)} if isinstance(value, bool) else _section(key, value)
        stage = _stage_in(key, settings)
        for name, one in settings.items():
            require_zero_value(key, str(name), one)
            self._notes[f"{key}.{name}"] = self._zero_note(key, str(name), one, stage)

    def _zero_note(self, section: str, name: str, value: object, stage: int | str) -> str:
        key = f"{section}.{name}"
        if name == "stage":
            return self._stage(key, value, stage)
        if name in _MOVED_BY:
            return self._offloaded(key, value, _MOVED_BY[name], stage)
        if name in _ON_THE_HOST:
            device = {"device": "cpu" if _truth(key, value) else "none"}
            return self._offloaded(key, device, _ON_THE_HOST[name], stage)
        if name == "contiguous_gradients":
            _truth(key, value)
            return _ALWAYS
        return _NOTHING_TO_SHARD if name in ZERO_ON_RANKS else not_known(
            name, {*ZERO_ON_RANKS, *_ZERO_HERE}, f"in {section}")

    def _stage(self, key: str, given: object, stage: int | str) -> str:
        shardings = _STAGES[stage]
        if given is not None:
            for sharding in shardings:
                self._say(key, "shardings", sharding, "auto" if stage == "auto" else True)
        if stage == 0:
            return "nothing is shared out: sharding=\"none\" with a mesh"
        if stage == "auto":
            return f"with a mesh, each sharding is tried; shares state out {_NOTHING_TO_SHARD}"
        nearest = ", which also has gradients in shards" if stage == 1 else ""
        return (f"sharding=\"{shardings[0]}\" with a mesh{nearest}; stage {stage} shares "
                f"state out {_NOTHING_TO_SHARD}")

    def _offloaded(self, key: str, value: object, what: str, stage: int | str) -> str:
        settings = _section(key, value)
        self._note_section(key, key.rpartition(".")[2], value)
        device = settings.get("device", "none")
        if device not in ("none", None, "cpu", "nvme"):
            raise InputError(f"{key}.device is \"cpu\", \"nvme\" or \"none\", not {device!r}")
        if device in ("none", None):
            return "off"
        self._offload[what] = True
        self._places[key] = (_folder(f"{key}.nvme_path", settings.get("nvme_path"))
                             if device == "nvme" else _place())
        least = _LEAST_STAGE[what]
        alone = ("" if isinstance(stage, str) or stage >= least else
                 f"; DeepSpeed does so from stage {least} on, and here it needs none")
        return f"lowtide.Offload(..., {what}=True): planned with what runs again{alone}"

    def _checkpointing(self, key: str, value: object) -> None:
        for name, one in _section(key, value).items():
            self._notes[f"{key}.{name}"] = self._checkpointing_note(name, one)

    def _checkpointing_note(self, name: str, value: object) -> str:
        if name in _CHECKPOINTING and name != "number_checkpoints":
            value = _truth(f"activation_checkpointing.{name}", value)
        if name == "cpu_checkpointing" and value:
            self._places[f"activation_checkpointing.{name}"] = _place()
            return "saved values may move, where that is faster than to make them again"
        if name == "number_checkpoints" and value is not None:
            if not is_count(value):
                raise InputError(f"activation_checkpointing.{name} is a whole number or null, not "
                                 f"{value!r}")
            return ("the plan chooses what to keep; strategy=\"megatron\", options={\"layers\": "
                    f"L / {value}}} keeps the inputs of so many parts of L layers")
        if name not in _CHECKPOINTING:
            return not_known(str(name), _CHECKPOINTING, "in activation_checkpointing")
        return _CHECKPOINTING[name]


#: Stages of ZeRO, by the shardings that are tried on the ranks of a mesh.
_STAGES: Mapping[int | str, Sequence[str]] = {
    0: ("none",), 1: ("gradients",), 2: ("gradients",), 3: ("full",), "auto": SHARDINGS}

#: From which stage on DeepSpeed moves what.
_LEAST_STAGE = {"optimizer_state": 1, "parameters": 3}

#: The first is the product of the others and of the number of ranks.
_SIZES_OF_BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu",
                   "gradient_accumulation_steps")

#: Older keys of ZeRO that are true or false, with what moves.
_ON_THE_HOST = {"cpu_offload": "optimizer_state", "cpu_offload_param": "parameters",
                "cpu_offload_params": "parameters"}

#: Sections of ZeRO that name a device, with what moves there.
_MOVED_BY = {"offload_optimizer": "optimizer_state", "offload_param": "parameters"}

#: Keys of ZeRO that are read.
_ZERO_HERE = ("stage", "contiguous_gradients", *_MOVED_BY, *_ON_THE_HOST)

_CHECKPOINTING = {
    "partition_activations": f"saved values are split {_NOTHING_TO_SHARD}",
    "contiguous_memory_optimization": _ALWAYS,
    "cpu_checkpointing": "off: saved values stay in memory",
    "number_checkpoints": "the plan chooses what to keep",
    "synchronize_checkpoint_boundary": "not needed: copies and reruns wait for what they read",
    "profile": "lowtide.explain(model) and model.memory say what runs again and what it takes",
}

_OTHERS = {
    "train_batch_size": "the batch is that of example_inputs",
    "train_micro_batch_size_per_gpu": "the batch is that of example_inputs",
    "gradient_clipping": "torch.nn.utils.clip_grad_norm_ as ever, or with a fused update "
                         "fused_update=lowtide.FusedUpdate(max_norm=...)",
    "optimizer": "make the optimizer in PyTorch, and give it as optimizer=",
    "scheduler": "make the scheduler in PyTorch",
    "communication_data_type": _NOTHING_TO_SHARD,
    "prescale_gradients": _NOTHING_TO_SHARD,
    "data_types": "gradients are added up in the type of the parameters",
}


def _place() -> str:
    """Where values move: the host's memory on a GPU, a folder on a machine without one."""
    return HOST if torch.cuda.is_available() else tempfile.gettempdir()


def _folder(key: str, path: Any) -> str:
    """Raises InputError for one that no values may move to."""
    try:
        if not isinstance(path, str):
            raise InputError(f"a folder is a text, not {path!r}: device \"nvme\" wants it")
        Offload(path)
    except InputError as error:
        raise InputError(f"{key}: {error}") from None
    return path


def _stage_in(key: str, settings: Mapping) -> int | str:
    """Of the settings of ZeRO. Raises InputError for one that is none."""
    stage = settings.get("stage")
    if stage is None:
        return 0
    if isinstance(stage, bool) or not isinstance(stage, (int, str)) or stage not in _STAGES:
        raise InputError(f"{key}.stage is 0, 1, 2, 3 or \"auto\", not {stage!r}")
    return stage


def _truth(key: str, value: object) -> bool:
    """null stands for false, as for a key that is not there."""
    if value is not None and not isinstance(value, bool):
        raise InputError(f"{key} of a configuration of DeepSpeed is true or false, not {value!r}")
    return bool(value)


def _section(key: str, value: object) -> Mapping:
    """null stands for one without keys."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{key} of a configuration of DeepSpeed is an object with keys, not "
                         f"{value!r}")
    return value


def _enabled(key: str, value: object) -> bool | str | None:
    """True, False, "auto", where the launcher's arguments say it, or None: nothing is said."""
    enabled = _section(key, value).get("enabled")
    if enabled is not None and enabled != "auto" and not isinstance(enabled, bool):
        raise InputError(f"{key}.enabled is true, false or \"auto\", not {enabled!r}")
    return enabled


def _read(configuration: Mapping | str | os.PathLike[str]) -> Mapping:
    if isinstance(configuration, Mapping):
        return configuration
    if not isinstance(configuration, (str, os.PathLike)):  # open() takes numbers, and waits
        raise InputError(f"a configuration of DeepSpeed is a dict or the path of a JSON file, not "
                         f"{configuration!r}")
    try:
        with open(configuration, encoding="utf-8-sig") as file:
            given = json.load(file, object_pairs_hook=_each_key_once)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"the configuration of DeepSpeed {os.fspath(configuration)!r} cannot be "
                         f"read: {error}. It is to be JSON, without comments.") from None
    return _section(f"the file {os.fspath(configuration)!r}", given)


def _each_key_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """As DeepSpeed, which does not guess which of two was meant. Raises ValueError."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is there twice")
        found[key] = value
    return found
