"""What stands in ``.grad`` for a gradient that an update has used."""

from __future__ import annotations

import torch

from ... import Error

#: By these a module moves or converts its parameters, and their gradients with them.
_CONVERSIONS = {"to", "cpu", "cuda", "half", "bfloat16", "float", "double"}
_OF_CONVERSIONS = {"__set__", "dim", "is_complex", "is_floating_point", "requires_grad_",
                   "_has_compatible_shallow_copy_type"}


class SpentGradient(torch.Tensor):
    """Takes no memory, and raises Error for whatever would compute with it: so a loop that clips or
    scales gradients learns that there are none. It moves with its parameter."""

    @classmethod
    def of(cls, parameter: torch.Tensor) -> SpentGradient:
        one = torch.empty((), dtype=parameter.dtype, device=parameter.device)
        return cls._filled(one, parameter.shape)

    @classmethod
    def _filled(cls, one: torch.Tensor, shape: torch.Size) -> SpentGradient:
        return torch.Tensor._make_subclass(cls, one.expand(shape))

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name == "__get__" or name in _OF_CONVERSIONS:  # its shape and the like
            return super().__torch_function__(function, types, args, kwargs or {})
        if name in _CONVERSIONS:
            with torch._C.DisableTorchFunctionSubclass():
                spent, *where = args
                how = {key: value for key, value in (kwargs or {}).items()
                       if key != "memory_format"}  # a number has none
                one = spent.as_subclass(torch.Tensor).as_strided((), ())
                return cls._filled(function(one, *where, **how), spent.shape)
        raise Error(f"{getattr(function, '__name__', function)} wants a gradient that "
                    f"fused_update=True of lowtide.wrap has used for an update already. Clipping "
                    f"and scaling of gradients need them all before the first update: leave them "
                    f"out, or fused_update. For clipping by the norm of all gradients there is "
                    f"fused_update=lowtide.FusedUpdate(max_norm=...)")

    def __repr__(self, **_) -> str:
        return f"SpentGradient(shape={tuple(self.shape)})"
