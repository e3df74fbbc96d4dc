"""An accelerator in software, to run on any machine what is written for a GPU.

Its memory is not the host's: a read or write by the host is a fault, and copies go through streams.
It has a size, and PyTorch raises ``torch.OutOfMemoryError`` when that is used up. Streams do their
work late, and in an order that is random unless events order it. Ops run the CPU's kernels, so a
program that orders its streams gives the bits that it gives on the CPU.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import backend_registration

from .. import InputError, _runtime
from ..arguments import checked_count
from .common.cpu_kernels import add_type_with_cpu_kernels

#: Of the device type: ``tensor.to("simulated")``, ``torch.simulated``.
NAME = "simulated"

#: Rounded up to whole pages, it is still a signed number of 64 bits.
_MOST_BYTES = 1 << 62


def install(bytes: int, *, late: bool = True, seed: int = 0) -> types.ModuleType:
    """Makes ``simulated`` a device type of this process, and returns ``torch.simulated``.

    ``bytes``: the size of the device's memory. ``late``: streams work later than they are asked to,
    in an order drawn from ``seed``; if false, at once. A process can install one device, and must
    do so before its first backward pass, when autograd counts the devices. Raises ``InputError``
    where there is a device already, and ``Error`` where the system has no such memory.
    """
    bytes = checked_count("bytes", bytes, 1, _MOST_BYTES)
    _require_int("seed", seed)
    if torch._C._get_privateuse1_backend_name() not in (NAME, "privateuseone"):
        raise InputError("this process has another device type of PrivateUse1 already: "
                         + torch._C._get_privateuse1_backend_name())
    _runtime.install_simulated(bytes, late, seed % 2**64)
    module = _device_module()
    backend_registration.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, module)
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    add_type_with_cpu_kernels(NAME)
    _start_autograd()
    return module


def reseed(seed: int) -> None:
    """Draws the order of the streams' work from another seed, from now on. Ends all work first."""
    _require_int("seed", seed)
    _runtime.reseed_simulated(seed % 2**64)


def launches() -> int:
    """How often the host asked the device for work so far: for a kernel, a copy, or all of a
    graph."""
    return _runtime.simulated_launches()


@contextlib.contextmanager
def refusing(request: int) -> Iterator[None]:
    """While it lasts, the ``request``-th request for the device's memory, counted from 1, is
    refused, as though none were left. Others are served."""
    _runtime.refuse_simulated_request(checked_count("request", request, 1, _MOST_BYTES))
    try:
        yield
    finally:
        _runtime.refuse_simulated_request(0)


def _start_autograd() -> None:
    """Autograd makes its threads, one for each device that there is, in its first backward pass."""
    try:
        with torch.enable_grad():
            torch.zeros((), device=NAME, requires_grad=True).mul(1).backward()
    except RuntimeError as error:
        raise InputError("the simulated device must be installed before the first backward pass of "
                         "the process: autograd counts the devices there") from error


def _require_int(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{name} is an int, and not {value!r}")


def _manual_seed(seed: int) -> None:
    _runtime.simulated_generator().manual_seed(int(seed))


def _get_rng_state(device: object = NAME) -> torch.Tensor:
    return _runtime.simulated_generator().get_state()


def _set_rng_state(new_state: torch.Tensor, device: object = NAME) -> None:
    _runtime.simulated_generator().set_state(new_state)


def _seed() -> int:
    return _runtime.simulated_generator().seed()


def _device(device: object) -> contextlib.AbstractContextManager:
    """A context with this device as the current one, as ``torch.cuda.device``."""
    index = device if isinstance(device, int) else torch.device(device).index
    return torch.accelerator.device_index(index or 0)


def _is_current_stream_capturing() -> bool:
    """Never before PyTorch 2.13, which has the first graphs of all devices."""
    stream = torch.accelerator.current_stream()
    return hasattr(stream, "is_capturing") and stream.is_capturing()


def _device_module() -> types.ModuleType:
    """What PyTorch asks of ``torch.<device type>``, by the names that ``torch.cuda`` has."""
    module = types.ModuleType(f"torch.{NAME}", __doc__)
    owner = os.getpid()
    accelerator: Any = torch.accelerator
    module.__dict__.update(
        Stream=torch.Stream,  # of the accelerator that there is
        Event=torch.Event,
        _initialized=True,
        is_available=lambda: True,
        is_initialized=lambda: True,
        _is_in_bad_fork=lambda: os.getpid() != owner,
        init=lambda: None,
        _lazy_init=lambda: None,  # PyTorch 2.11 waits for no device without it
        device_count=lambda: 1,
        current_device=lambda: 0,
        set_device=accelerator.set_device_index,
        device=_device,
        get_device_name=lambda device=None: NAME,
        get_amp_supported_dtype=lambda: [torch.bfloat16, torch.float16],
        is_bf16_supported=lambda: True,
        manual_seed=_manual_seed,
        manual_seed_all=_manual_seed,
        seed=_seed,
        seed_all=_seed,
        initial_seed=lambda: _runtime.simulated_generator().initial_seed(),
        get_rng_state=_get_rng_state,
        get_rng_state_all=lambda: [_get_rng_state()],
        set_rng_state=_set_rng_state,
        set_rng_state_all=lambda states: _set_rng_state(states[0]),
        default_generators=(_runtime.simulated_generator(),),
        synchronize=accelerator.synchronize,
        is_current_stream_capturing=_is_current_stream_capturing,
        stream=lambda stream: contextlib.nullcontext() if stream is None else stream,
        current_stream=accelerator.current_stream,
        default_stream=lambda device=None: torch.Stream(
            stream_id=0, device_index=0,
            device_type=torch._C._autograd.DeviceType.PrivateUse1.value),
        set_stream=accelerator.set_stream,
        empty_cache=accelerator.empty_cache,
        mem_get_info=accelerator.get_memory_info,
        memory_allocated=accelerator.memory_allocated,
        max_memory_allocated=accelerator.max_memory_allocated,
        memory_reserved=accelerator.memory_reserved,
        max_memory_reserved=accelerator.max_memory_reserved,
        memory_stats=accelerator.memory_stats,
        reset_peak_memory_stats=accelerator.reset_peak_memory_stats,
        reset_accumulated_memory_stats=accelerator.reset_accumulated_memory_stats,
        OutOfMemoryError=torch.OutOfMemoryError,
    )
    sys.modules[module.__name__] = module
    return module
