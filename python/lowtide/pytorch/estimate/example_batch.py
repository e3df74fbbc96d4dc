"""A batch for a model of Hugging Face's transformers, by its configuration."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ... import InputError
from ...arguments import checked_count
from .fields import field_of, with_part_for_texts, with_parts
from .known_values import MOST_KNOWN_BYTES

#: Tokens of a text where no length is given, if the model reads so many.
_USUAL_LENGTH = 512
#: Names by which configurations say how many tokens a model reads.
_LENGTHS = ("max_position_embeddings", "n_positions", "max_sequence_length",
            "max_target_positions")
#: Of a sound where no length is given: ten seconds, as samples or as frames.
_USUAL_SAMPLES, _USUAL_FRAMES = 160_000, 1000
#: Names by which configurations say how many numbers a frame of a sound has.
_FRAME_WIDTHS = ("num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel")
#: Models that read places on a page as shares of it; others read whole numbers.
_PLACES_AS_SHARES = ("udop",)
#: Models that read the frames of videos one by one, as images.
_FRAMES_AS_IMAGES = ("xclip_vision_model",)
#: Pixels of an image, where the configuration does not say.
_USUAL_IMAGE = 224

#: Ends of names of classes whose labels are one for each example.
_ONE_LABEL = ("ForSequenceClassification", "ForImageClassification", "ForAudioClassification",
              "ForVideoClassification", "ForNextSentencePrediction", "ForMultipleChoice")
#: Those whose labels are one for each token.
_LABEL_OF_TOKEN = ("ForMaskedLM", "ForTokenClassification", "ForConditionalGeneration",
                   "ForPreTraining", "ForCausalLM", "LMHead", "Model")
#: That whose loss reads lengths and labels by their values.
_BY_VALUES = "ForCTC"
_CHOICES = 2

#: What always works.
HOW_TO_GIVE_INPUTS = (
    "write a function that returns the model and a dict of its inputs by name, under "
    "torch.device(\"meta\") if they are to take no memory, and give it: `python -m lowtide "
    "estimate my_module:make`, or lowtide.estimate(*make())")


class _Extent(enum.Enum):
    """What a batch has of all that a model reads beside its main input."""

    NEEDED = enum.auto()  # what it cannot be called without
    OF_TEXTS = enum.auto()  # and what belongs to texts and sounds
    WHOLE = enum.auto()  # all


@dataclasses.dataclass(frozen=True)
class ExampleBatch:
    """``inputs``: as a model is called with them; those made here have names, and lie on ``meta``
    but for small whole numbers. ``notes``: on what they leave out."""

    inputs: Any
    notes: list[str]


def batches_for(model: torch.nn.Module, batch: int,
                length: int | None) -> Iterator[ExampleBatch]:
    """Batches with labels, where the loss does not depend on their values: of texts of ``length``
    tokens, of sounds, or of images as large as the configuration says. The first is what most
    models are trained with, later ones have more of what this one reads. Raises InputError for
    models that read something else, and for more tokens than the model reads."""
    made: list[ExampleBatch] = []
    for extent in _Extent:
        try:
            made.append(_Maker(model, batch, length, extent).made())
        except InputError:
            if not made:
                raise
            return  # the configuration does not say the sizes of all that the model reads
        if all(_shapes(made[-1]) != _shapes(other) for other in made[:-1]):
            yield made[-1]


def _shapes(made: ExampleBatch) -> dict[str, object]:
    return {name: getattr(value, "shape", None) for name, value in made.inputs.items()}


class _Maker:
    def __init__(self, model, batch: int, length: int | None, extent: _Extent):
        self._model, self._batch, self._extent = model, batch, extent
        self._config, self._kind = model.config, type(model).__name__
        self._accepts = inspect.signature(model.forward).parameters
        self._given = None if length is None else checked_count("length", length, 1)
        self._notes: list[str] = []
        self._makers: dict[str, Callable[[], torch.Tensor]] = {
            "input_ids": self._texts, "pixel_values": self._images,
            "input_values": self._sounds, "input_features": self._frames}
        self._others: dict[str, Callable[[], torch.Tensor]] = {
            "bbox": self._boxes, "qformer_input_ids": self._tokens,
            "input_features_mask": self._frames_there}

    def made(self) -> ExampleBatch:
        reads = getattr(self._model, "main_input_name", None)
        is_of_pairs = isinstance(reads, str) and "return_loss" in self._accepts
        found = self._pairs(reads) if is_of_pairs else self._main(reads) | self._labels()
        found |= {name: make() for name, make in (self._makers | self._others).items()
                  if name not in found and self._is_needed(name)}
        if field_of(self._config, "quantization_config"):
            self._notes.append("The weights are counted as they are trained, without the "
                               "quantization_config.")
        return ExampleBatch(found, self._notes)

    def _is_needed(self, name: str) -> bool:
        accepted = self._accepts.get(name)
        if accepted is None:
            return False
        return (accepted.default is accepted.empty or self._extent is _Extent.WHOLE
                or self._extent is _Extent.OF_TEXTS and name in self._others)

    def _main(self, reads: object) -> dict[str, torch.Tensor]:
        if not isinstance(reads, str) or reads not in self._makers:
            raise InputError(f"{self._kind} reads {reads}, for which an estimate knows no size: "
                             f"{HOW_TO_GIVE_INPUTS}")
        found = {reads: self._makers[reads]()}
        if (reads == "input_ids" and self._extent is not _Extent.WHOLE
                and {"pixel_values", "input_features"} & set(self._accepts)):
            self._notes.append("The batch has texts alone: what images or sounds add is counted "
                               "where they are given as example inputs.")
        if self._config.is_encoder_decoder and not self._has_token_labels:
            found["decoder_input_ids"] = self._tokens()
        return found

    def _pairs(self, reads: str) -> dict[str, Any]:
        """Of a model that is trained to tell which of two kinds belong together."""
        found = self._main(reads)
        if "pixel_values" in self._accepts:
            found |= {"input_ids": self._texts(), "pixel_values": self._images()}
        self._notes.clear()
        return found | {"return_loss": True}

    @property
    def _has_token_labels(self) -> bool:
        reads_texts = "input_ids" in self._accepts or self._config.is_encoder_decoder
        return ("labels" in self._accepts and self._kind.endswith(_LABEL_OF_TOKEN)
                and (reads_texts or not self._kind.endswith("Model")))

    def _labels(self) -> dict[str, torch.Tensor]:
        of_example = self._zeros(self._batch)
        if "start_positions" in self._accepts:
            return {"start_positions": of_example, "end_positions": of_example.clone()}
        if "labels" in self._accepts and self._kind.endswith(_ONE_LABEL):
            return {"labels": self._classes(of_example)}
        if self._has_token_labels:
            others = ("next_sentence_label", "sentence_order_label")
            return {"labels": self._tokens()} | {name: of_example for name in others
                                                 if name in self._accepts}
        if "labels" in self._accepts and self._kind.endswith("ForSemanticSegmentation"):
            return {"labels": self._zeros(self._batch, *self._image_size())}
        if "labels" in self._accepts:
            why = ("depends on the values of labels" if self._kind.endswith(_BY_VALUES) else
                   "has labels that an estimate does not know")
            self._notes.append(f"The loss of {self._kind} is not counted, which {why}: gradients "
                               f"of the size of its results are.")
        return {}

    def _classes(self, of_example: torch.Tensor) -> torch.Tensor:
        """Numbers of classes, or what a regression or several classes at once want."""
        if self._config.problem_type == "multi_label_classification":
            return self._zeros(self._batch, self._config.num_labels, dtype=torch.float32)
        if self._config.num_labels == 1 or self._config.problem_type == "regression":
            return of_example.float()
        return of_example

    def _texts(self) -> torch.Tensor:
        tokens = self._tokens()
        if self._kind.endswith("ForMultipleChoice"):
            return tokens.unsqueeze(1).repeat(1, _CHOICES, 1)
        return tokens

    def _tokens(self) -> torch.Tensor:
        most = self._most_tokens()
        length = min(_USUAL_LENGTH, most or _USUAL_LENGTH) if self._given is None else self._given
        if most is not None and length > most:
            raise InputError(f"{self._kind} reads at most {most} tokens, not {length}")
        return self._zeros(self._batch, length)

    def _most_tokens(self) -> int | None:
        found = (field_of(part, name) for part in with_part_for_texts(self._config)
                 for name in _LENGTHS)
        return next((most for most in found if isinstance(most, int) and most > 0), None)

    def _images(self) -> torch.Tensor:
        channels = self._of_vision("num_channels")
        shape = [channels if isinstance(channels, int) else 3, *self._image_size()]
        frames = self._of_vision("num_frames")
        if not isinstance(frames, int):
            return self._zeros(self._batch, *shape, dtype=torch.float32)
        if self._config.model_type in _FRAMES_AS_IMAGES:
            return self._zeros(self._batch * frames, *shape, dtype=torch.float32)
        return self._zeros(self._batch, frames, *shape, dtype=torch.float32)

    def _image_size(self) -> tuple[int, int]:
        size = self._of_vision("image_size")
        if size is None:
            size = _USUAL_IMAGE
            note = (f"Images have {size} x {size} pixels, as the configuration does not say how "
                    f"many: give others as example inputs.")
            self._notes += [note] if note not in self._notes else []
        height, width = size if isinstance(size, (tuple, list)) else (size, size)
        return height, width

    def _of_vision(self, name: str) -> Any:
        """Of the configuration, or of a part, that for images first."""
        found = (field_of(part, name) for part in with_parts(self._config))
        return next((value for value in found if value is not None), None)

    def _sounds(self) -> torch.Tensor:
        """Samples; or frames of numbers, where the configuration says how many these are."""
        width, frames = (field_of(self._config, name) for name in ("num_mel_bins", "max_length"))
        if isinstance(width, int) and isinstance(frames, int):
            return self._zeros(self._batch, frames, width, dtype=torch.float32)
        is_length_of_text = self._has_token_labels
        samples = _USUAL_SAMPLES if is_length_of_text or self._given is None else self._given
        usual_channels = 1 if self._extent is _Extent.WHOLE else None
        channels = field_of(self._config, "audio_channels", usual_channels)
        shape = [samples] if channels is None else [channels, samples]
        return self._zeros(self._batch, *shape, dtype=torch.float32)

    def _frames(self) -> torch.Tensor:
        widths = (field_of(part, name) for part in with_parts(self._config)
                  for name in _FRAME_WIDTHS)
        width = next((width for width in widths if isinstance(width, int)), None)
        if width is None:
            raise InputError(f"the configuration of {self._kind} does not say how many numbers a "
                             f"frame of its input_features has: {HOW_TO_GIVE_INPUTS}")
        window = field_of(self._config, "max_source_positions")
        if self._config.model_type == "whisper" or (  # of all lengths, padded to one
                self._extent is _Extent.WHOLE and window is not None):
            return self._zeros(self._batch, width, 2 * window, dtype=torch.float32)
        frames = (_USUAL_FRAMES if self._has_token_labels or self._given is None else self._given)
        return self._zeros(self._batch, frames, width, dtype=torch.float32)

    def _frames_there(self) -> torch.Tensor:
        shape = self._frames().shape
        return torch.ones(shape[0], max(shape[1:]), dtype=torch.int64)

    def _boxes(self) -> torch.Tensor:
        """Of each token on a page: left, top, right and bottom."""
        as_shares = self._config.model_type in _PLACES_AS_SHARES
        return self._zeros(*self._tokens().shape, 4,
                           dtype=torch.float32 if as_shares else torch.int64)

    def _zeros(self, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """Indices with what they hold, which models ask for; all else without memory."""
        is_known = (not dtype.is_floating_point
                    and math.prod(shape) * dtype.itemsize <= MOST_KNOWN_BYTES)
        return torch.zeros(*shape, dtype=dtype, device="cpu" if is_known else "meta")
