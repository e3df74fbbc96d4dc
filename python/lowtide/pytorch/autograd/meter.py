"""Measures what a training step takes of the framework's memory of its device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from .region import Region
from .taken_bytes import GradientsBesideBlocks, TakenBytes


class Meter:
    """Reads off what a step takes of the framework's memory, in bytes, from its first forward pass,
    or what is captured before it, until the next step begins.

    ``regions``: those whose blocks count as taken by a step though they are kept between steps, a
    list that its owner changes. ``existing``: gives what is there before a step as the last one,
    the optimizer's state to come included, and ``state`` what of that state there is now.
    ``gradients``: those of the parameters.
    """

    def __init__(self, regions: Sequence[Region], existing: Callable[[], int],
                 state: Callable[[], int], gradients: GradientsBesideBlocks):
        #: The most that other code took in the last step whose backward pass was read.
        self.outside_bytes = 0
        #: By how much the step took more than its plans count.
        self.unforeseen_bytes = 0
        #: What the last step that ended took when its passes were over: beside blocks and what
        #: lasts, and with all that was there.
        self.between_bytes = self.between_peak_bytes = 0
        #: Whether it had a backward pass.
        self.has_trained = False
        self._regions, self._existing = regions, existing
        self._taken = TakenBytes(self._held_bytes, gradients)
        self._state = state
        #: At the last backward pass of a step that goes on, as other passes wait.
        self._state_before: int | None = None
        #: Where the step began; None where none is made any more, as looking takes milliseconds.
        self._state_at_first: int | None = 0
        self._has_state = False
        #: What of it was seen last.
        self.state_bytes = 0
        self._is_capturing = False
        self._is_open = False
        self._before_capture = 0
        self._before = self._unserved_before = self._held_before = 0
        #: When peaks were reset last, after which blocks may be given back.
        self._planned_before = 0
        self._outside = self._until_backward = 0
        self._is_read = False
        #: What was taken when the last backward pass was read; some of it belongs to that pass.
        self._read_at = 0
        #: What existed before the step that ended last; peaks are given with what existed then.
        self._existed = self._after_backward = self._peak_before = 0

    def capture(self, device: str) -> None:
        """A graph is to be captured for the step that comes, on the device: it begins with this."""
        self._taken.device = device
        if not self._is_capturing:
            self._open()
            self._taken.capture()
            self._before_capture = self._beside_blocks()
            self._is_capturing = True
            self._has_state = False  # other parameters may be trained from now on

    def begin(self, device: str) -> None:
        """The first forward pass of a step comes, on the device."""
        captured = 0
        if self._is_capturing:
            # Garbage of before is collected meanwhile: it is none of what the step takes.
            captured = self._taken.peak - self._before_capture
            self._reset_peaks()
        else:
            self._taken.device = device
            self._open()
        self._taken.trains_here()
        self._held_before = self._held_bytes()
        self._before = self._beside_blocks()
        self._until_backward = self._before + captured if captured else 0
        self._unserved_before = self._taken.unserved_now
        self._is_capturing = False

    def own_pass(self) -> contextlib.AbstractContextManager[None]:
        """While a pass runs, or blocks are given back: other sessions count nothing of it."""
        return self._taken.own()

    def note_uncounted(self, existing_bytes: int) -> None:
        """So much existed before the step that the framework had not counted, and does from now
        on."""
        self._before += existing_bytes

    def read(self, made_bytes: int = 0) -> None:
        """A backward pass has ended, which has made so many bytes of the optimizer's state."""
        if self._is_open:
            made_bytes += self._state_made()
            self._before += made_bytes
            self._unserved_before += made_bytes
            self._is_read = True
            unserved = self._taken.unserved_peak - self._unserved_before
            self._outside = max(self._outside, unserved)
            self.outside_bytes = self._outside
            peak = self._taken.peak
            self._until_backward = max(self._until_backward, peak)
            # Where an earlier step had more passes at once, more blocks are there at first.
            foreseen = max(self._planned_bytes(), self._planned_before, self._held_before)
            self.unforeseen_bytes = max(self.unforeseen_bytes, peak - self._before - foreseen)
            self._reset_peaks()
            self._read_at = self._taken.now

    def _state_made(self) -> int:
        """What the optimizer has made of its state between backward passes of one step."""
        before, waits = self._state_before, any(region.pending_passes for region in self._regions)
        now = self._state() if waits or before is not None else None
        self._state_before = now if waits else None
        return 0 if before is None else max(0, now - before)

    def restart(self) -> None:
        """What the step took so far does not count: it was within another budget. What other code
        took in one whose passes are over does."""
        if self._is_open:
            self._reset_peaks()
            self._until_backward = self._after_backward = 0
            if any(region.pending_passes for region in self._regions):
                self.unforeseen_bytes = 0
            self.between_bytes = self.between_peak_bytes = 0
            self._is_read, self._peak_before = False, 0

    def leave(self) -> None:
        """Other work begins. While a forward pass waits for its backward pass, it is work within
        the step, as that of a teacher whose results the loss compares with."""
        if not any(region.pending_passes for region in self._regions):
            self.end()

    def end(self) -> None:
        """What follows is no part of the step."""
        if self._is_open and not self._is_capturing:
            peak = self._taken.peak
            self._existed = self._existing()
            self.between_bytes = self.between_peak_bytes = 0
            self.has_trained = self._is_read
            self._after_backward = self._existed + peak - self._made_bytes() - self._before
            if self._is_read and peak > self._read_at:
                self.between_peak_bytes = self._after_backward
                self.between_bytes = self._after_backward - self._existed - self._held_bytes()
            self._is_open = False

    @property
    def peak_bytes(self) -> int:
        """The most that was there at one time: in the last step whose backward pass was read until
        that was over, and afterwards in the last one that another one followed. What existed before
        differs among them, as gradients are kept, or batches have other sizes."""
        if not self._is_read:
            return self._peak_before
        existed = self._existing() if self._is_open else self._existed
        return max(existed + self._until_backward - self._before, self._after_backward)

    def _open(self) -> None:
        self._peak_before, self._is_read = self.peak_bytes, False
        self._reset_peaks()
        self._until_backward = self._outside = self.unforeseen_bytes = 0
        self._state_before = None
        self._state_at_first = None if self._has_state else self._state()
        self._is_open = True

    def _reset_peaks(self) -> None:
        self._taken.reset()
        self._planned_before = self._planned_bytes()

    def _made_bytes(self) -> int:
        """What was made since the step began and lasts: the optimizer's state in its first step,
        which counts among what exists, and what the caller keeps for other ends. Gradients that
        were kept may have ended meanwhile, and are none of either."""
        made = max(0, self._beside_blocks() - self._before)
        if self._state_at_first is None:
            return made
        state = self.state_bytes = self._state()
        self._has_state = state == self._state_at_first > 0
        return max(made, state - self._state_at_first)

    def _beside_blocks(self) -> int:
        return self._taken.now - self._held_bytes()

    def _planned_bytes(self) -> int:
        """What lies beside blocks has states of the generator, which blocks have too."""
        return sum(executor.block_bytes - executor.generator_state_bytes - executor.away_bytes
                   + region.beside_block_bytes
                   for region in self._regions for executor in region.executors
                   if executor.held_bytes)

    def _held_bytes(self) -> int:
        return sum(executor.held_bytes for region in self._regions for executor in region.executors)
