"""Recurrent layers are traced by their cells.

The layers that eager PyTorch runs instead keep what no plan could count: oneDNN's a workspace whose
size it tells nobody before, cuDNN's a generator of its own.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

import torch

_aten = torch.ops.aten
_GATES = 3  #: of a GRU
_SAVED = 5  #: numbers for each hidden one that the backward pass of its cell reads


def _by_cells(layer: torch._ops.OpOverload) -> Callable:
    def run(*args):
        with _without_whole_layers():
            return layer._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args)
    return run


@contextlib.contextmanager
def _without_whole_layers():
    """As ``torch.backends.mkldnn.flags``, which sets TF32 too: where PyTorch was built without
    Intel's GPUs it warns of that."""
    onednn, cudnn = torch.backends.mkldnn.enabled, torch.backends.cudnn.enabled
    torch._C._set_mkldnn_enabled(False)
    torch._C._set_cudnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(onednn)
        torch._C._set_cudnn_enabled(cudnn)


#: What is traced in place of each layer.
LAYERS = {layer: _by_cells(layer) for layer in (
    _aten.lstm.input, _aten.gru.input, _aten.rnn_tanh.input, _aten.rnn_relu.input)}


@functools.cache
def tell_shapes_of_gru_cells() -> torch.library.Library:
    """PyTorch tells the shapes of the fused cell of an LSTM on a GPU, and not of that of a GRU (its
    kernels are in aten/src/ATen/native/cuda/RNN.cu). The result is to be kept."""
    library = torch.library.Library("aten", "IMPL", "Meta")
    for name, shapes in (("_thnn_fused_gru_cell", _gru_cell),
                         ("_thnn_fused_gru_cell_backward", _gru_cell_backward)):
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            library.impl(name, shapes)
    return library


def _gru_cell(input_gates, hidden_gates, hidden, input_bias=None, hidden_bias=None):
    saved = hidden.new_empty((hidden.shape[0], _SAVED * hidden.shape[1]))
    return torch.empty_like(hidden, memory_format=torch.contiguous_format), saved


def _gru_cell_backward(gradient, saved, has_bias):
    rows, width = gradient.shape[0], _GATES * gradient.shape[1]
    biases = [gradient.new_empty((width,)) if has_bias else None for _ in range(2)]
    return (gradient.new_empty((rows, width)), gradient.new_empty((rows, width)),
            torch.empty_like(gradient, memory_format=torch.contiguous_format), *biases)
