"""The most bytes that single ops take while they run, measured on the device."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ... import _runtime
from ..common.random_numbers import random_numbers_kept
from .grouped_products import GROUPED, all_in_last_group

#: An op is measured if its tensors take at most this share of the device's free memory: it holds
#: them, its results and its workspaces.
_LARGEST_SHARE = 0.25


#: Ops of recurrent layers: their workspaces hold what no tensor of zeros does, in sizes that fake
#: tensors do not know, and kernels read them without a check.
_OPAQUE = ("mkldnn_rnn_layer", "_cudnn_rnn", "miopen_rnn")


class OpPeaks:
    """Runs each different op once on tensors of its own, of the same shapes, dtypes and strides."""

    def __init__(self, device: str):
        self._device, self._kind = device, torch.device(device)
        self._known: dict[Hashable, int] = {}
        self.not_measured: set[str] = set()  # ops that are too large, opaque, or need other data

    def bytes(self, op: torch._ops.OpOverload, arguments: tuple, named: dict) -> int:
        """The most that the op takes above its inputs, results included; 0 where it cannot be
        measured."""
        leaves, form = pytree.tree_flatten((arguments, named))
        if any(leaf.layout != torch.strided or leaf.is_quantized
               for leaf in leaves if isinstance(leaf, torch.Tensor)):
            return 0
        key = (op, form, tuple(map(_key_of, leaves)))
        if key not in self._known:
            self._known[key] = self._measured(op, leaves, form)
        return self._known[key]

    def _measured(self, op, leaves, form) -> int:
        needed = sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor))
        is_opaque = op.overloadpacket.__name__.startswith(_OPAQUE)
        if is_opaque or needed > _LARGEST_SHARE * _runtime.device_memory(self._device)[0]:
            self.not_measured.add(str(op))
            return 0
        with _disable_current_modes(), torch.no_grad(), random_numbers_kept(self._kind):
            arguments, named = pytree.tree_unflatten(list(map(self._like, leaves)), form)
            if op is GROUPED:
                all_in_last_group(*arguments)
            try:
                return self._peak_of(op, arguments, named)
            except Exception:  # an op may refuse data that no step would give it
                self.not_measured.add(str(op))
                return 0

    def _peak_of(self, op, arguments, named) -> int:
        op(*arguments, **named)  # the first run may set up what later ones find
        _runtime.reset_peaks(self._device)
        before = _runtime.taken_bytes(self._device)
        result = op(*arguments, **named)
        peak = _runtime.taken_peak_bytes(self._device) - before
        del result
        return peak

    def _like(self, leaf):
        """A tensor of the same form, with zeros: they are an index and a target of any op."""
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype,
                                   device=self._device).zero_()


def _key_of(leaf) -> Hashable:
    if isinstance(leaf, torch.Tensor):
        return (tuple(leaf.shape), leaf.stride(), leaf.dtype)
    return (type(leaf), leaf if isinstance(leaf, Hashable) else repr(leaf))
