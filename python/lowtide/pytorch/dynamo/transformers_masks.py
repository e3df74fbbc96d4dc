"""Attention masks of Hugging Face's transformers, chosen as they are without a trace.

Its models look at the values of their inputs: where nothing is padded and nothing is packed they
leave the mask away, and attention runs by another kernel call, whose gradients round otherwise when
heads share keys. A trace sees no values, so there the mask would always be made. Here the values
are looked at before each call, and the trace is one for what was found: Dynamo guards on it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence

import torch


@dataclasses.dataclass
class _Call:
    """What is known of the call under way."""

    is_known: bool = False
    unpadded: bool = False  # there is a padding mask, and nothing is masked
    unpacked: bool = False  # positions are the model's own: they count up from 0


_CALL = _Call()
#: Guards of Dynamo and traces read ``_CALL`` in whatever thread they are.
_ONE_CALL_AT_A_TIME = threading.RLock()


@contextlib.contextmanager
def known_masks(forward: Callable, arguments: Sequence, named: Mapping):
    """While it lasts, a trace of transformers' models is one for masks like those of this call of
    ``forward``. Another thread that calls such a model waits. Does nothing where transformers is
    not in use."""
    if "transformers.masking_utils" not in sys.modules:
        yield
        return
    with _ONE_CALL_AT_A_TIME:
        _substitute()  # a cache alone lets two threads in
        before = dataclasses.replace(_CALL)
        _note_call(forward, arguments, named)
        try:
            yield
        finally:
            vars(_CALL).update(vars(before))


def _note_call(forward: Callable, arguments: Sequence, named: Mapping) -> None:
    given = {**dict(zip(_names(forward), arguments)), **named}
    _CALL.is_known = True
    mask = given.get("attention_mask")
    _CALL.unpadded = _is_plain(mask) and mask.dim() == 2 and bool(mask.all())
    _CALL.unpacked = ("input_ids" in given or "inputs_embeds" in given) \
        and given.get("position_ids") is None


def _is_plain(value) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(
        value, torch._subclasses.FakeTensor) and not value.is_meta


def _names(forward: Callable) -> list[str]:
    return [name for name, parameter in inspect.signature(forward).parameters.items()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]


@contextlib.contextmanager
def known_masks_of_fake_call(forward: Callable, arguments: Sequence, named: Mapping):
    """The same for a call with fake tensors that no Dynamo traces: the arguments here are those
    that the fake ones stand for. Other threads run transformers' own functions."""
    with known_masks(forward, arguments, named), contextlib.ExitStack() as changes:
        for name, original, replacement in _replacements():
            masks = sys.modules["transformers.masking_utils"]
            setattr(masks, name, _in_this_thread(replacement, original))
            changes.callback(setattr, masks, name, original)
        yield


@functools.cache
def _substitute() -> None:
    """Has Dynamo trace these functions in place of transformers' own: the same where no call is
    known. Eager code runs transformers' as ever."""
    for _, original, replacement in _replacements():
        torch._dynamo.decorators.substitute_in_graph(original, skip_signature_check=True)(
            replacement)


def _replacements() -> list[tuple[str, Callable, Callable]]:
    """Names of functions of transformers, with each the function and what stands in its place; none
    where transformers is not in use."""
    masks = sys.modules.get("transformers.masking_utils")
    wrappers = {"find_packed_sequence_indices": _packed, "_ignore_causal_mask_sdpa": _ignoring,
                "_ignore_bidirectional_mask_sdpa": _ignoring,
                "is_torchdynamo_exporting": _exporting, "is_tracing": _tracing}
    return [(name, getattr(masks, name), wrap(copied(getattr(masks, name))))
            for name, wrap in wrappers.items() if hasattr(masks, name)]  # of a version that has it


def _in_this_thread(replacement: Callable, original: Callable) -> Callable:
    this = threading.get_ident()

    @functools.wraps(original)
    def chosen(*arguments, **named):
        function = replacement if threading.get_ident() == this else original
        return function(*arguments, **named)

    return chosen


def _packed(plain: Callable) -> Callable:
    def find_packed_sequence_indices(position_ids):
        if _CALL.unpacked:
            return None
        return plain(position_ids)

    return find_packed_sequence_indices


def _ignoring(plain: Callable) -> Callable:
    def ignore_mask_sdpa(padding_mask, *arguments, **named):
        if _CALL.unpadded:
            return plain(None, *arguments, **named)
        return plain(padding_mask, *arguments, **named)

    return ignore_mask_sdpa


def _exporting(plain: Callable) -> Callable:
    """Dynamo of torch 2.11 takes every trace for an export, which keeps all masks."""
    def is_torchdynamo_exporting():
        return not _CALL.is_known and plain()

    return is_torchdynamo_exporting


def _tracing(plain: Callable) -> Callable:
    """Older versions of transformers ask so about a padding mask, and then keep all masks. Without
    a padding mask a trace sees all that the call without one sees."""
    def is_tracing(tensor=None):
        if tensor is None and _CALL.is_known:
            return False
        return plain(tensor)

    return is_tracing


def copied(function: Callable) -> Callable:
    """The same code as another function, which is not substituted."""
    copied = types.FunctionType(function.__code__, function.__globals__, function.__name__,
                                function.__defaults__, function.__closure__)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied
