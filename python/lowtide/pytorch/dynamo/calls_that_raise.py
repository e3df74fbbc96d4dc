"""What a call that raised leaves behind in Dynamo: nothing."""

from __future__ import annotations

import types
from collections.abc import Sequence

from torch._C._dynamo import eval_frame
from torch._dynamo.guards import DeletedGuardManagerWrapper
from torch._dynamo.types import ConvertFrameReturn, FrameAction, FrameExecStrategy

_TO_BE_TRACED = FrameExecStrategy(FrameAction.DEFAULT, FrameAction.DEFAULT)


class CallsThatRaise:
    """Has Dynamo forget what it did in calls that raised.

    Wrong inputs raise while they are traced too. Dynamo then gives the function up for all calls
    to come, and for all models with this code, or breaks the graph where it was, for calls of other
    inputs too: after one wrong call nothing would be planned as a whole any more.
    """

    def __init__(self) -> None:
        self._given_up: list[types.CodeType] = []
        self._traced: list[tuple[types.CodeType, object]] = []

    def see_trace(self, code: types.CodeType, found: ConvertFrameReturn) -> None:
        """``found``: what Dynamo found for a call of ``code``."""
        if found.guarded_code is not None:
            self._traced.append((code, found.guarded_code.guard_manager))
        elif found.apply_to_code:
            self._given_up.append(code)

    def see_end(self) -> Sequence[types.CodeType]:
        """A call is over: what it traced is kept, and returned."""
        codes = [code for code, _ in self._traced]
        self._given_up.clear()
        self._traced.clear()
        return codes

    def see_error(self) -> Sequence[types.CodeType]:
        """A call raised: what it traced is let go of, and returned."""
        codes = [code for code, _ in self._traced]
        while self._given_up:
            eval_frame.set_code_exec_strategy(self._given_up.pop(), _TO_BE_TRACED)
        while self._traced:
            code, guards = self._traced.pop()
            for entry in eval_frame._debug_get_cache_entry_list(code):
                if entry.guard_manager is guards:
                    forget_entry(entry, "its call raised")
        return codes


def forget_entry(entry, why: str) -> None:
    """Lets go of one of Dynamo's traces."""
    state = entry.guard_manager.extra_state
    if state is not None:
        state.invalidate(entry, DeletedGuardManagerWrapper(why))
