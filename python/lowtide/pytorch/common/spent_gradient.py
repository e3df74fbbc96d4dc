"""What stands in ``.grad`` for a gradient that an update has used."""

from __future__ import annotations

import torch

from ... import Error


class SpentGradient(torch.Tensor):
    """Takes no memory, and raises Error for whatever would compute with it: so a loop that clips or
    scales gradients learns that there are none."""

    @classmethod
    def of(cls, parameter: torch.Tensor) -> SpentGradient:
        one = torch.empty((), dtype=parameter.dtype, device=parameter.device)
        return torch.Tensor._make_subclass(cls, one.expand(parameter.shape))

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") == "__get__":  # its shape and the like
            return super().__torch_function__(function, types, args, kwargs or {})
        raise Error(f"{getattr(function, '__name__', function)} wants a gradient that "
                    f"fused_update=True of lowtide.wrap has used for an update already. Clipping "
                    f"and scaling of gradients need them all before the first update: leave them "
                    f"out, or fused_update. For clipping by the norm of all gradients there is "
                    f"fused_update=lowtide.FusedUpdate(max_norm=...)")

    def __repr__(self, **_) -> str:
        return f"SpentGradient(shape={tuple(self.shape)})"
