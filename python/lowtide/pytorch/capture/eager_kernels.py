"""Tracing with the kernels that eager PyTorch runs.

PyTorch replaces interpolation by Python code of indexing and arithmetic when it traces. That suits
a compiler that fuses it again. Run op by op it takes other roundings than the kernel and holds
many times the memory. Its Python code of recurrent layers leaves out the dropout between them
(recurrent.py). Its dropout rounds or draws otherwise (dropout.py). Its margin losses round
otherwise, and that of several labels counts labels that are none. Nor does it lay all results out
as the kernels do (kernel_layouts.py).
"""

from __future__ import annotations

import contextlib

import torch

from ..common.one_trace import ONE_TRACE_AT_A_TIME
from . import recurrent
from .dropout import alpha_dropout, alpha_dropout_, dropout
from .kernel_layouts import kernel_layouts

_KEYS = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)
_REPLACED = tuple(getattr(torch.ops.aten, name) for name in (
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d",
    "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
    "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
    "alpha_dropout", "alpha_dropout_", "dropout", "rrelu", "multi_margin_loss",
    "multilabel_margin_loss_forward", "gru", "lstm", "rnn_tanh", "rnn_relu"))


def _rrelu(input, *args, **named):
    """Of a contiguous input: its result is contiguous in eager PyTorch, whatever the input is, and
    that of the op which is traced lies as the input does."""
    return torch.ops.aten.rrelu.default._op_dk(
        torch._C.DispatchKey.CompositeImplicitAutograd, input.contiguous(), *args, **named)


#: What is traced in place of the C++ code of an op.
_OURS = {**recurrent.LAYERS, torch.ops.aten.dropout.default: dropout,
         torch.ops.aten.alpha_dropout.default: alpha_dropout,
         torch.ops.aten.alpha_dropout_.default: alpha_dropout_,
         torch.ops.aten.rrelu.default: _rrelu}
#: Where a backend outside of PyTorch may have C++ code of its own, which would go first.
_OF_BACKENDS = {torch.ops.aten.dropout.default: torch._C.DispatchKey.AutogradPrivateUse1}


@contextlib.contextmanager
def eager_kernels():
    """While it lasts, AOTAutograd traces interpolation, dropout and margin losses as eager PyTorch
    runs them, recurrent layers by their cells, and results as the kernels lay them out. Another
    thread that wants to trace waits."""
    with (ONE_TRACE_AT_A_TIME, _in_place(_OURS, _overloads(), _OF_BACKENDS), kernel_layouts(),
          _errors_unchecked()):
        yield


@contextlib.contextmanager
def recurrent_kernels():
    """While it lasts, AOTAutograd traces recurrent layers by their cells, with the dropout between
    them, as `eager_kernels` does, and all else as PyTorch does."""
    with ONE_TRACE_AT_A_TIME, _in_place(recurrent.LAYERS, list(recurrent.LAYERS), {}):
        yield


@contextlib.contextmanager
def _in_place(ours, overloads, of_backends):
    """Has `ours` traced in place of PyTorch's Python code of these overloads."""
    removed = [(op, key, op.py_kernels.pop(key)) for op in overloads for key in _KEYS
               if key in op.py_kernels]
    recurrent.tell_shapes_of_gru_cells()
    for op, kernel in ours.items():
        op.py_kernels.update(dict.fromkeys(_KEYS, kernel))
    for op, key in of_backends.items():
        op.py_kernels[key] = ours[op]
    _forget_dispatch(overloads)
    try:
        yield
    finally:
        for op, key in of_backends.items():
            del op.py_kernels[key]
        for op in ours:
            for key in _KEYS:
                del op.py_kernels[key]
        for op, key, kernel in removed:
            op.py_kernels[key] = kernel
        _forget_dispatch(overloads)


@contextlib.contextmanager
def _errors_unchecked():
    """While it lasts, the check that a matrix could be inverted or factored is no effect that must
    be kept. It makes no tensor, so that no plan could hold it."""
    check = torch._library.simple_registry.singleton.find("aten::_linalg_check_errors").effect
    effect = check._effect
    check._effect = None
    try:
        yield
    finally:
        check._effect = effect


def _overloads():
    return [getattr(packet, name) for packet in _REPLACED for name in ("vec", "default", "input")
            if name in packet.overloads()]


def _forget_dispatch(overloads):
    """The ops remember which kernel they chose."""
    for op in overloads:
        op._dispatch_cache.clear()
