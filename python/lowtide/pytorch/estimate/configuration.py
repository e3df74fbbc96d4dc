"""Models of Hugging Face's transformers by their configuration, without weights."""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import os
import pathlib
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ... import InputError
from .fields import field_of, with_part_for_texts
from .possible_numbers import require_possible_numbers

#: Where a configuration names no class, the first of these that has one for it: of a model with an
#: encoder and a decoder, of an encoder that reads text both ways, and of all others.
_WITH_DECODER = ("AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq")
_ENCODERS = ("AutoModelForMaskedLM",)
_OTHERS = ("AutoModelForCausalLM", "AutoModelForImageTextToText", "AutoModelForCTC",
           "AutoModelForZeroShotImageClassification", "AutoModelForImageClassification",
           "AutoModelForAudioClassification", "AutoModelForVideoClassification",
           "AutoModelForSemanticSegmentation", "AutoModelForSequenceClassification",
           "AutoModelForSpeechSeq2Seq", "AutoModelForRNNT", "AutoModelForTDT",
           "AutoModelForObjectDetection", "AutoModelForZeroShotObjectDetection",
           "AutoModelForUniversalSegmentation", "AutoModelForInstanceSegmentation",
           "AutoModelForMaskGeneration", "AutoModelForDepthEstimation",
           "AutoModelForKeypointDetection", "AutoModelForImageToImage",
           "AutoModelForTextToSpectrogram", "AutoModelForTextToWaveform",
           "AutoModelForQuestionAnswering", "AutoModelForMultimodalLM",
           "AutoModelForPreTraining")
#: Where none of these has one, which trains less than they would.
_BARE = "AutoModel"

#: Of configurations, what draws at random which parts of the model run, so that a trace would know
#: no answer; with the value by which all of them do.
_ALL_PARTS = {"layerdrop": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0,
              "apply_spec_augment": False}
#: Tokens that a decoder begins and fills up with; models for training have to have them.
_TOKENS = ("pad_token_id", "decoder_start_token_id", "bos_token_id", "eos_token_id")

_NO_CLASS = ("; where it is that of a part of a model, as of its encoder of images, give that of "
             "the whole")

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
    with one. Nothing is downloaded. Layers are never left out at random. Raises InputError for a
    file that cannot be read or that names no model that transformers knows, for numbers that no
    model can have, and without transformers.
    """
    transformers = _transformers()
    place = type(configuration).__name__
    if isinstance(configuration, (str, os.PathLike)):
        place = str(configuration)
        configuration = _read(transformers, pathlib.Path(configuration))
    else:
        require_possible_numbers(configuration.to_dict(), type(configuration), place)
    configuration = _for_training(configuration)
    refused: dict[str, Exception] = {}
    for kind in _classes_of(transformers, configuration, place):
        try:
            with torch.device("meta"):
                return kind._from_config(configuration).train()
        except Exception as error:  # as of a class that is made of one of its parts
            refused[kind.__name__] = error
    name, first = next(iter(refused.items()))
    raise InputError(f"{place}: transformers cannot make a {name} of this configuration "
                     f"({type(first).__name__}: {shortly(first)}): correct it, or name another "
                     f"class in \"architectures\"") from first


def shortly(error: Exception) -> str:
    """Its text; some of transformers go on with the names of all models that there are."""
    return textwrap.shorten(str(error), _LONGEST_REASON, placeholder=" ...")


def _for_training(configuration):
    """A copy, as a training has it; memory does not depend on which tokens are special."""
    configuration = copy.deepcopy(configuration)
    configuration.use_cache = False
    for part in with_part_for_texts(configuration):
        for name, value in _ALL_PARTS.items():
            if field_of(part, name, value) != value:
                setattr(part, name, value)
    if configuration.is_encoder_decoder:
        for name in _TOKENS:
            if field_of(configuration, name) is None:
                setattr(configuration, name, 0)
    return configuration


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
        fields = json.loads(path.read_text(), object_hook=_number_or_fields)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); an estimate needs a "
                         f"config.json of transformers") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no JSON document ({error})") from None
    if not isinstance(fields, dict) or "model_type" not in fields:
        raise InputError(f"{path}: has no \"model_type\", by which transformers knows a model: "
                         f"write it, as in \"model_type\": \"llama\"")
    require_possible_numbers(fields, _kind_of(transformers, fields["model_type"]), str(path))
    try:
        return transformers.AutoConfig.for_model(**fields)
    except Exception as error:
        raise InputError(f"{path}: transformers refuses this configuration ({shortly(error)}): "
                         f"correct it, or install a version of transformers that knows it "
                         f"(this is {transformers.__version__})") from None


def _number_or_fields(fields: dict) -> Any:
    """transformers writes what JSON has no number for as ``{"__float__": "Infinity"}``."""
    match fields:
        case {"__float__": str(number)} if len(fields) == 1:
            return float(number)
    return fields


def _kind_of(transformers, model_type: object) -> Any:
    """The class of configurations; None for a type that transformers does not know."""
    known = transformers.CONFIG_MAPPING
    return known[model_type] if isinstance(model_type, str) and model_type in known else None


def _classes_of(transformers, configuration, place: str) -> list[Any]:
    """Those that it may be a configuration of, the likeliest first: the one that it names, those
    that transformers has one for, or the only one beside it that trains something."""
    for name in configuration.architectures or ():
        named = getattr(transformers, str(name), None)
        if isinstance(named, type) and issubclass(named, transformers.PreTrainedModel):
            return [named]
    found = (_mapped(transformers, _auto_classes(configuration), configuration)
             or _mapped(transformers, [_BARE], configuration))
    if found:
        return found
    known = _classes_with(transformers, configuration)
    alone = [name for name in known if "For" in name] if len(known) > 1 else known
    if len(alone) == 1:
        return [getattr(transformers, alone[0])]
    what_to_name = f", one of {', '.join(known)}" if known else _NO_CLASS
    raise InputError(f"{place}: transformers does not say which model is trained with a "
                     f"{type(configuration).__name__}: name its class in \"architectures\""
                     f"{what_to_name}")


def _mapped(transformers, names: Iterable[str], configuration) -> list[Any]:
    mappings = (getattr(transformers, name)._model_mapping for name in names
                if hasattr(transformers, name))  # some are of later versions
    found = []
    for mapping in mappings:
        # Some of the classes that transformers lists it does not have.
        with contextlib.suppress(ValueError):
            if type(configuration) in mapping:
                found.append(mapping[type(configuration)])
    return [kind[0] if isinstance(kind, (tuple, list)) else kind for kind in found]


def _classes_with(transformers, configuration) -> list[str]:
    """Names of the classes that are beside that of the configuration, and made of one like it."""
    beside = type(configuration).__module__.replace(".configuration_", ".modeling_")
    try:
        found = vars(importlib.import_module(beside)).values()
    except ImportError:
        return []
    return sorted(kind.__name__ for kind in found if isinstance(kind, type)
                  and issubclass(kind, transformers.PreTrainedModel)
                  and field_of(kind, "config_class") is type(configuration)
                  and not kind.__name__.endswith("PreTrainedModel")
                  and hasattr(transformers, kind.__name__))


def _auto_classes(configuration) -> Iterator[str]:
    if configuration.is_encoder_decoder:
        yield from _WITH_DECODER
    if not field_of(configuration, "is_decoder", False):
        yield from _ENCODERS
    yield from _OTHERS
