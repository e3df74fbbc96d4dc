"""Models of Hugging Face's transformers by their configuration, without weights."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

import torch

from ... import InputError
from ...arguments import checked_count

#: Tokens of a text where no length is given, if the model reads so many.
_USUAL_LENGTH = 512
#: Names by which configurations say how many tokens a model reads.
_LENGTHS = ("max_position_embeddings", "n_positions", "max_sequence_length")
#: Where a configuration names no class: the first of these that has one for it.
_AUTO_CLASSES = ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM",
                 "AutoModelForImageClassification")

#: Characters of what transformers says.
_LONGEST_REASON = 300


def is_configuration(subject: object) -> bool:
    """Whether it is a path, or an object of transformers' class of configurations."""
    if isinstance(subject, (str, os.PathLike)):
        return True
    transformers = sys.modules.get("transformers")
    return transformers is not None and isinstance(subject, transformers.PretrainedConfig)


def model_of(configuration: Any) -> torch.nn.Module:
    """The model, in training mode on the device ``meta``, in the configuration's dtype.

    ``configuration``: an object of transformers, the path of a ``config.json``, or that of a folder
    with one. Nothing is downloaded. Raises InputError for a file that cannot be read or that names
    no model that transformers knows, and without transformers.
    """
    transformers = _transformers()
    if isinstance(configuration, (str, os.PathLike)):
        configuration = _read(transformers, pathlib.Path(configuration))
    configuration.use_cache = False  # as in training
    kind = _class_of(transformers, configuration)
    try:
        with torch.device("meta"):
            return kind._from_config(configuration).train()
    except Exception as error:
        raise InputError(f"transformers cannot make a {kind.__name__} of this configuration "
                         f"({type(error).__name__}: {_shortly(error)})") from error


def inputs_for(model: torch.nn.Module, batch: int, length: int | None) -> Mapping:
    """A batch with labels, on ``meta``: of texts of ``length`` tokens, or of images as large as the
    configuration says. Raises InputError for models that read something else, and for more tokens
    than the model reads."""
    reads = getattr(model, "main_input_name", None)
    if reads == "input_ids":
        return _texts(model, batch, length)
    if reads == "pixel_values":
        return _images(model, batch)
    raise InputError(f"{type(model).__name__} reads {reads}: give example_inputs, a dict by name; "
                     f"on the device meta they take no memory")


def _transformers():
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise InputError("an estimate of a configuration needs transformers: pip install "
                         "transformers, or give a model and example_inputs") from error
    return transformers


def _read(transformers, path: pathlib.Path):
    path = path / "config.json" if path.is_dir() else path
    try:
        fields = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); an estimate needs a "
                         f"config.json of transformers") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no JSON document ({error})") from None
    if not isinstance(fields, dict) or "model_type" not in fields:
        raise InputError(f"{path}: has no \"model_type\", by which transformers knows a model")
    try:
        return transformers.AutoConfig.for_model(**fields)
    except Exception as error:
        raise InputError(f"{path}: transformers refuses this configuration "
                         f"({_shortly(error)})") from None


def _shortly(error: Exception) -> str:
    """Its text; some go on with the names of all models that there are."""
    return textwrap.shorten(str(error), _LONGEST_REASON, placeholder=" ...")


def _class_of(transformers, configuration) -> Any:
    for name in configuration.architectures or ():
        named = getattr(transformers, name, None)
        if named is not None:
            return named
    for name in _AUTO_CLASSES:
        mapping = getattr(transformers, name)._model_mapping
        if type(configuration) in mapping:
            found = mapping[type(configuration)]
            return found[0] if isinstance(found, (tuple, list)) else found
    raise InputError(f"transformers has no model to train for {type(configuration).__name__}: name "
                     f"its class in \"architectures\", or give a model and example_inputs")


def _texts(model: torch.nn.Module, batch: int, length: int | None) -> Mapping:
    most = next((getattr(model.config, name) for name in _LENGTHS
                 if isinstance(getattr(model.config, name, None), int)), None)
    if length is None:
        length = min(_USUAL_LENGTH, most or _USUAL_LENGTH)
    length = checked_count("length", length, 1)
    if most is not None and length > most:
        raise InputError(f"{type(model).__name__} reads at most {most} tokens, not {length}")
    tokens = torch.zeros(batch, length, dtype=torch.int64, device="meta")
    is_classifier = type(model).__name__.endswith("ForSequenceClassification")
    labels = tokens[:, 0].clone() if is_classifier else tokens.clone()
    return {"input_ids": tokens, "labels": labels}


def _images(model: torch.nn.Module, batch: int) -> Mapping:
    size = getattr(model.config, "image_size", None) or 224
    height, width = size if isinstance(size, (tuple, list)) else (size, size)
    channels = getattr(model.config, "num_channels", 3)
    return {"pixel_values": torch.zeros(batch, channels, height, width, device="meta"),
            "labels": torch.zeros(batch, dtype=torch.int64, device="meta")}
