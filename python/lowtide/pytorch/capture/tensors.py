"""The tensors of a captured graph: which own bytes and which are views."""

from __future__ import annotations

import torch

from ... import InputError
from .dtypes import NAMES
from .user_line import at_user_line


class Tensors:
    """The `tensors` of a document as far as they are written.

    Views are told by the storages of the fake tensors that PyTorch traced with: tensors of one
    storage share memory, whatever op made them.
    """

    def __init__(self):
        self.records = []
        self._owners = {}  # by storage: the tensor that owns its bytes
        self._device = None

    def add_resident(self, node, tensor, role, name):
        """Of two residents that share a storage the first owns all its bytes: a resident cannot be
        a view."""
        _require_plain(node, tensor, name)
        storage = _storage(tensor)
        known = storage in self._owners
        index = self._add(node, tensor, name, kind="resident", role=role,
                          bytes=0 if known else _storage_bytes(tensor))
        self._owners.setdefault(storage, index)
        return index

    def add_value(self, node, tensor, name, op):
        """A result of `op`, whose inputs and earlier outputs are its only possible bases."""
        _require_plain(node, tensor, name)
        owner = self._owners.get(_storage(tensor))
        near = {self._storage_of(index) for index in (*op["inputs"], *op["outputs"])}
        if owner in near:
            return self._add(node, tensor, name, kind="value", alias_of=owner, bytes=0)
        index = self._add(node, tensor, name, kind="value",
                          bytes=_storage_bytes(tensor))
        self._owners[_storage(tensor)] = index
        return index

    def add_foreign(self, node, tensor, name):
        """A value whose memory is another's."""
        _require_plain(node, tensor, name)
        index = self._add(node, tensor, name, kind="value", bytes=0)
        self._owners[_storage(tensor)] = index
        return index

    def add_made(self, name: str, tensor: torch.Tensor) -> int:
        """A value that no node stands for, with the type and strides of ``tensor``."""
        return self._described(name, tensor, kind="value", bytes=_storage_bytes(tensor))

    def _storage_of(self, index):
        return self.records[index].get("alias_of", index)

    def _add(self, node, tensor, name, **fields):
        self._require_one_device(node, tensor, name)
        return self._described(name, tensor, **fields)

    def _described(self, name, tensor, **fields):
        record = {"name": name, **fields, "dtype": NAMES[tensor.dtype],
                  "shape": list(tensor.shape)}
        strides = list(tensor.stride())
        if strides != _contiguous(record["shape"]):
            record["strides"] = strides
        self.records.append(record)
        return len(self.records) - 1

    def _require_one_device(self, node, tensor, name):
        self._device = self._device or tensor.device
        if tensor.device != self._device:
            raise InputError(f"{name} is on {tensor.device} and other tensors are on "
                             f"{self._device}; a plan is for one device{at_user_line(node)}.")


def _require_plain(node, tensor, name):
    """Refuses what the graph format has no words for."""
    if tensor.dtype not in NAMES:
        raise InputError(f"{name} has the dtype {tensor.dtype}, which a graph file cannot hold"
                         f"{at_user_line(node)}. It can hold {', '.join(map(str, NAMES))}.")
    if tensor.layout is not torch.strided:
        raise InputError(f"{name} has the layout {tensor.layout}; only dense tensors with strides "
                         f"can be planned{at_user_line(node)}.")
    if not all(isinstance(size, int) for size in (*tensor.shape, *tensor.stride())):
        raise InputError(f"{name} has the shape {tuple(tensor.shape)}, which is not known before "
                         f"the step runs{at_user_line(node)}. Compile with dynamic=False, and let "
                         f"no size depend on data.")


def _storage(tensor):
    return tensor.untyped_storage()._cdata


def _contiguous(shape):
    strides = []
    expected = 1
    for size in reversed(shape):
        strides.append(expected)
        expected *= max(size, 1)
    return strides[::-1]


def _storage_bytes(tensor: torch.Tensor) -> int:
    """Dynamo may leave the size of a storage open though that of the tensor is not: of an input
    that is expanded. This graph is for the one at hand."""
    return int(tensor.untyped_storage().nbytes())
