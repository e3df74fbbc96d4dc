"""A trace for each state of PyTorch that a call reads and Dynamo makes no guard of."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch.nn.modules import module as modules

from ..common.one_trace import ONE_TRACE_AT_A_TIME
from .trace import forget

#: Where there is no hook for all modules, a trace leaves the question out; else Dynamo guards on
#: which ones there are.
_HOOKS_OF_ALL_MODULES = (modules._global_forward_hooks, modules._global_forward_pre_hooks,
                         modules._global_backward_hooks, modules._global_backward_pre_hooks)


class TracePerSurroundings:
    """Calls what ``trace()`` returns, a function of ``traced``, of which there is one for each
    state that was met: kernels of attention that are allowed, as by
    ``torch.nn.attention.sdpa_kernel``, and hooks for all modules."""

    def __init__(self, trace: Callable[[], Callable]):
        self._trace, self._traced = trace, {}

    def __call__(self, *arguments, **named):
        state = surroundings()
        if state not in self._traced:
            with ONE_TRACE_AT_A_TIME:
                if state not in self._traced:  # by another thread
                    self._traced[state] = self._trace()
        return self._traced[state](*arguments, **named)

    def forget(self) -> None:
        """Lets go of all that was traced; no call may follow."""
        while self._traced:
            forget(self._traced.popitem()[1])


def surroundings() -> Hashable:
    """The state that a trace made now is for."""
    attention = torch.backends.cuda  # of the CPU too
    return (attention.flash_sdp_enabled(), attention.mem_efficient_sdp_enabled(),
            attention.math_sdp_enabled(), attention.cudnn_sdp_enabled(),
            *map(bool, _HOOKS_OF_ALL_MODULES))
