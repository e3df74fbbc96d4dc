"""What a backward pass does that updates parameters, as a person asks for it."""

from __future__ import annotations

import dataclasses
import math
import numbers

from ... import InputError

#: Of ``torch.nn.utils.clip_grad_norm_``, those that are offered.
_NORM_TYPES = (2.0, math.inf)


@dataclasses.dataclass(frozen=True)
class FusedUpdate:
    """The backward pass updates each parameter by the optimizer's own step.

    ``max_norm``: above 0; gradients are clipped before, as ``torch.nn.utils.clip_grad_norm_`` does
    with the model's parameters, to a total norm of that; None clips nothing. ``norm_type``: 2, or
    ``math.inf`` for the largest magnitude. ``error_if_nonfinite``: whether a norm that is infinite
    or not a number is an Error, before any parameter is updated. Raises InputError.
    """

    max_norm: float | None = None
    norm_type: float = 2.0
    error_if_nonfinite: bool = False

    def __post_init__(self):
        if self.max_norm is not None and not (_is_real(self.max_norm) and self.max_norm > 0):
            raise InputError(f"max_norm of FusedUpdate must be a number above 0, or None for no "
                             f"clipping, not {self.max_norm!r}")
        if not _is_real(self.norm_type) or self.norm_type not in _NORM_TYPES:
            raise InputError(f"norm_type of FusedUpdate is 2 or math.inf, not {self.norm_type!r}")
        if not any(self.error_if_nonfinite is choice for choice in (True, False)):
            raise InputError(f"error_if_nonfinite of FusedUpdate must be True or False, not "
                             f"{self.error_if_nonfinite!r}")
        if self.max_norm is None and (self.error_if_nonfinite or self.norm_type != 2):
            raise InputError("norm_type and error_if_nonfinite of FusedUpdate are for clipping: "
                             "give max_norm, or leave them out")

    @staticmethod
    def parse(given: FusedUpdate | bool | None) -> FusedUpdate | None:
        if isinstance(given, FusedUpdate):
            return given
        if given is None or given is False:
            return None
        if given is True:
            return FusedUpdate()
        raise InputError(f"fused_update must be True, False or a lowtide.FusedUpdate, not "
                         f"{given!r}")

    @property
    def clips(self) -> bool:
        return self.max_norm is not None


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
