"""A PyTorch without CUDA that traces programs for a CUDA device: nothing can be computed there.

For ``python -m lowtide capture --device cuda``, in a process of its own, and before torch is
imported: PyTorch looks once for CUDA.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import types
from typing import Any

from . import Error, InputError, _core


def torch_is_for_cpus() -> bool:
    """Whether the installed PyTorch has no part for GPUs, NVIDIA's or AMD's. Does not import it."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return False
    libraries = pathlib.Path(found.origin).with_name("lib")
    return not any((libraries / f"libtorch_{kind}.so").exists() for kind in ("cuda", "hip"))


def install(like: str) -> None:
    """From now on PyTorch believes in one device ``cuda:0``, with the properties of the GPU of that
    name. Raises InputError for a name that is not known or no GPU, and where torch is imported."""
    rates = _core.device_rates(like)
    if rates.cuda_capability is None:
        raise InputError(f"{like} is no GPU, whose programs could be captured: --like names the "
                         f"device that cuda is to be")
    major, minor = rates.cuda_capability
    part = importlib.import_module("._fake_cuda", __package__)
    part.install(major, minor, rates.maker == "AMD")
    import torch  # not before

    _answer_as(rates)
    if not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (major, minor)):
        raise Error(f"PyTorch {torch.__version__} takes no device that is put in place of a GPU; "
                    f"capture on a machine with one")


def explained(error: Exception) -> str | None:
    """One line for an error of PyTorch that asks for the GPU which is not there."""
    text = f"{type(error).__name__}: {error}"
    if not any(asked in text for asked in _ASKING_FOR_A_GPU):
        return None
    first, *_ = text.splitlines()
    return f"{first[:120]} ...; cuda stands for a GPU that is not there, and nothing can run on it"


#: In errors of PyTorch where something is to run on a GPU, or is asked of its driver.
_ASKING_FOR_A_GPU = ("requires CUDA", "'CUDA' backend", "DispatchKey.CUDA", "ATen_cuda",
                     "'_cuda_", "_CudaGenerator")


def on_host() -> Any:
    """A context in which tensors that a program makes on CUDA, or moves there, are made where they
    would be without a device, or stay: the capture moves them."""
    import torch
    from torch.overrides import TorchFunctionMode

    def is_cuda(value):
        if isinstance(value, int) and not isinstance(value, bool):
            return True  # the index of a GPU
        text = str(value) if isinstance(value, (str, torch.device)) else ""
        return text.split(":")[0] == "cuda"

    class OnHost(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if function is torch.Tensor.cuda:
                return args[0]
            if is_cuda(kwargs.get("device")):
                kwargs["device"] = args[0].device if function is torch.Tensor.to else None
            if function is torch.Tensor.to and len(args) > 1 and is_cuda(args[1]):
                args = (args[0], args[0].device, *args[2:])
            return function(*args, **kwargs)

    return OnHost()


def _answer_as(rates: Any) -> None:
    """What torch.cuda asks its compiled part, which is not there."""
    import torch

    major, minor = rates.cuda_capability
    properties = types.SimpleNamespace(
        name=rates.title, major=major, minor=minor, total_memory=rates.memory_bytes,
        multi_processor_count=1, warp_size=32, is_integrated=False)
    _set_answers(torch._C, _cuda_getDeviceCount=1, _cuda_getDevice=0, _cuda_setDevice=None,
                 _cuda_getCurrentRawStream=0, _cuda_synchronize=None, _cuda_emptyCache=None)
    _set_answers(torch.cuda, _exchange_device=0, _maybe_exchange_device=0,
                 _get_device_properties=properties)
    torch.cuda.default_generators = (torch.Generator(),)
    torch.cuda._initialized = True


def _set_answers(module: Any, **answers: Any) -> None:
    """Each a function of its own: PyTorch's tracer tells functions apart by identity."""
    for name, answer in answers.items():
        setattr(module, name, lambda *_, answer=answer: answer)
