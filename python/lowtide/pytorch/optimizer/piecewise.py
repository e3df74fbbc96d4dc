"""Steps an optimizer in pieces, whose state lies in slower memory between two steps."""

from __future__ import annotations

import collections
import contextlib
import functools
from collections.abc import Collection, Iterable, Mapping

import torch

from ... import Error
from ...interruptible import uninterrupted
from ..budget.memory import Moved
from ..plans.slower import Slower
from .elementwise import state_tensors
from .moving_state import MovingState
from .pieces import Part, Piece, cut, flat, may_move, runs
from .pipeline import Pipeline, begin_write, memory_of
from .stand_in import plain_step, stand_in


class Piecewise:
    """Has an optimizer stepped in pieces of ``largest_bytes`` of state.

    The state of one piece is read from ``slower`` while the one before it is updated and the one
    before that is written. The optimizer's own step runs for each piece, on a stand-in for the
    optimizer that has the parameters and the state of the piece alone; the optimizer's groups stay
    as they are. Parameters larger than a piece are cut. What cannot move stays in memory.

    It takes all room for the state, and raises Error where there is none. The optimizer does not
    change until ``adopt``. ``instead_of``: another one, whose room is given back then.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, slower: Slower, device: torch.device,
                 largest_bytes: int, instead_of: Piecewise | None = None):
        self._slower, self._device, self._largest_bytes = slower, device, largest_bytes
        self._pieces: list[Piece] = []
        self._parts: dict[torch.Tensor, list[tuple[Part, Piece]]] = {}
        self._stores: list = []
        #: Parameters of which some parts were updated and others not, or of which some are lost.
        self._unfinished: set[torch.Tensor] = set()
        #: What the last step moved.
        self.moved = Moved()
        self._make_room(optimizer, instead_of._stores if instead_of else ())

    @property
    def state_bytes(self) -> int:
        """In slower memory."""
        return sum(piece.bytes for piece in self._pieces)

    def adopt(self, optimizer: torch.optim.Optimizer) -> None:
        """Sends the optimizer's state away where it is another's, such as that which was loaded.
        Where that fails, the optimizer is as it was, and the Error is raised: nothing is taken from
        its state before all of it is away."""
        source = optimizer.state
        if isinstance(source, MovingState) and source.owner is self:
            return
        state = MovingState(self, self._read, self._bytes_of)
        self._unfinished.clear()
        self._forget_state(self._parts)
        look = source.copied if isinstance(source, MovingState) else source.__getitem__
        for piece in self._pieces:
            for part in piece.parts:
                if part.is_first and part.parameter in source:
                    state[part.parameter] = look(part.parameter)
            self._send_away(piece, state)
        for key in source:
            if key not in state:
                state[key] = look(key)
        optimizer.state = state

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer's step, without its hooks and closure.

        Ctrl-C is heard between two parameters. An error leaves parameters and their state as they
        were or as they are after the step; where a copy fails within a parameter that is cut, or
        gets no memory, the state of this one is lost, and an Error says so when it is asked for.
        """
        self.adopt(optimizer)
        self._require_finished(self._unfinished)
        self._make_room(optimizer)
        before = self._counted()
        moving = {parameter for group in optimizer.param_groups for parameter in group["params"]
                  if self._moves(parameter, optimizer.state)}
        self._forget_state(parameter for parameter in moving if parameter not in optimizer.state)
        self._step_in_memory(optimizer, moving)
        self._step_pieces(optimizer, moving)
        self.moved = self._counted() - before

    # ---- One step

    def _step_in_memory(self, optimizer: torch.optim.Optimizer,
                        moving: Collection[torch.Tensor]) -> None:
        """Of the parameters whose state does not move."""
        groups = [[parameter for parameter in group["params"]
                   if parameter.grad is not None and parameter not in moving]
                  for group in optimizer.param_groups]
        if any(groups):
            plain_step(optimizer)(stand_in(optimizer, groups, optimizer.state))

    def _step_pieces(self, optimizer: torch.optim.Optimizer,
                     moving: Collection[torch.Tensor]) -> None:
        group_of = {parameter: number for number, group in enumerate(optimizer.param_groups)
                    for parameter in group["params"]}
        pieces = [piece for piece in self._pieces
                  if any(part.parameter in moving for part in piece.parts)]
        pipeline = Pipeline(pieces, optimizer.state.is_away, self._device)
        try:
            for run in runs(pieces):
                with uninterrupted():
                    for piece in run:
                        parts = [part for part in piece.parts if part.parameter in moving]
                        self._step_piece(optimizer, piece, parts, group_of, pipeline)
        finally:
            with uninterrupted():
                try:
                    pipeline.close()
                finally:
                    for parameter in self._unfinished:
                        optimizer.state.send_away(parameter)

    def _step_piece(self, optimizer: torch.optim.Optimizer, piece: Piece, parts: Iterable[Part],
                    group_of: Mapping[torch.Tensor, int], pipeline: Pipeline) -> None:
        """Where the step fails, what it has made of the state counts, as it does in PyTorch."""
        memory, all_state = pipeline.take(), optimizer.state
        trained = {part: _trained(part) for part in parts}
        states = {part: _state_of(part, all_state.held(part.parameter), memory) for part in parts}
        groups: list[list] = [[] for _ in optimizer.param_groups]
        for part, tensor in trained.items():
            groups[group_of[part.parameter]].append(tensor)
        self._unfinished |= {part.parameter for part in parts if not part.is_whole}
        try:
            known = {trained[part]: state for part, state in states.items()}
            plain_step(optimizer)(stand_in(optimizer, groups, collections.defaultdict(dict, known)))
        finally:
            if memory is None:
                memory = self._memory_for(piece, states, all_state)
            resting = {part: part.numbers for part in piece.parts
                       if part not in states and part.numbers is not None
                       and all_state.is_away(part.parameter)}
            numbers = resting | _pack(states, memory)
            for part in numbers:
                if part.is_whole:  # until it is written, this is all there is of it
                    all_state[part.parameter] = numbers[part] | part.tensors_in(memory)
                elif part.parameter not in all_state:
                    all_state.send_away(part.parameter)
            states.clear()
            pipeline.put(piece, memory, functools.partial(self._sent, numbers, all_state))

    def _memory_for(self, piece: Piece, states: Mapping[Part, dict],
                    all_state: MovingState) -> torch.Tensor:
        """Where there is none, the state that the step has made stays where it is."""
        try:
            return memory_of(piece, self._device)
        except RuntimeError:
            for part, state in states.items():
                if part.is_whole and state:
                    all_state[part.parameter] = state
            raise

    def _sent(self, numbers: Mapping[Part, dict], state: MovingState) -> None:
        """Parts were written; with them stay the numbers of their state."""
        for part, kept in numbers.items():
            part.numbers = kept
            if part.is_last:
                self._unfinished.discard(part.parameter)
                state.send_away(part.parameter)

    def _moves(self, parameter: torch.Tensor, state: MovingState) -> bool:
        """Whether it is to be updated, by tensors that are as its room was made for."""
        gradient, held = parameter.grad, state.held(parameter) or {}
        if gradient is None or parameter not in self._parts:
            return False
        [(part, _), *_] = self._parts[parameter]
        return _is_like(gradient, part.layout, self._device) and all(
            held.get(name) is None or _is_like(held[name], part.layout, self._device)
            for name in part.names)

    # ---- All of the state

    def _send_away(self, piece: Piece, state: MovingState) -> None:
        """Writes what is in memory, and waits. Its numbers are copied, as others may hold it too,
        such as a checkpoint that was loaded."""
        parts = [part for part in piece.parts if state.held(part.parameter)
                 and all(_is_like(state.held(part.parameter).get(name), part.layout, self._device)
                         for name in part.names)]
        if parts:
            memory = memory_of(piece, self._device)
            states = {part: _state_of(part, state.held(part.parameter), None) for part in parts}
            numbers = _pack(states, memory)
            with uninterrupted():  # the memory is to be there until the copy has ended
                piece.store.wait(begin_write(piece, memory))
            self._sent({part: _copied(kept) for part, kept in numbers.items()}, state)

    def _read(self, parameter: torch.Tensor) -> dict:
        """A copy of a parameter's state. Raises Error where a copy back failed."""
        self._require_finished({parameter} & self._unfinished)
        parts = self._parts[parameter]
        first = parts[0][0]
        with torch.inference_mode(False):  # a step may update it later
            found = _copied(first.numbers) | {
                name: torch.empty_like(first.layout, device=self._device) for name in first.names}
        with uninterrupted(), contextlib.ExitStack() as waits:  # all end, also where one fails
            for part, piece in parts:
                for name, place in part.places():
                    into = flat(found[name])[part.begin:part.end]
                    waits.callback(piece.store.wait, piece.store.read(piece.offset + place, into,
                                                                      piece.name))
        return found

    def _bytes_of(self, parameters: Iterable[torch.Tensor]) -> int:
        return sum(part.bytes for parameter in parameters for part, _ in self._parts[parameter])

    def _forget_state(self, parameters: Iterable[torch.Tensor]) -> None:
        for parameter in parameters:
            for part, _ in self._parts[parameter]:
                part.numbers = None

    def _require_finished(self, parameters: Collection[torch.Tensor]) -> None:
        for parameter in parameters:
            raise Error(f"the optimizer's state of a parameter of shape {tuple(parameter.shape)} "
                        f"was lost, as a step of it failed half way: load a checkpoint of model "
                        f"and optimizer to go on")

    # ---- Room

    def _make_room(self, optimizer: torch.optim.Optimizer, instead_of: Collection = ()) -> None:
        """For the state of parameters that have none yet, or of which it gets more tensors, or that
        have other data than before."""
        for parameter in [parameter for parameter, [(part, _), *_] in self._parts.items()
                          if not _is_laid_out(parameter, part.layout)]:
            self._give_room_back(parameter, optimizer)
        wanted = {parameter: names for group in optimizer.param_groups
                  for names in [state_tensors(optimizer, group)] for parameter in group["params"]
                  if self._lacks_room(parameter, names) and may_move(parameter, self._device)}
        if not wanted:
            return
        for parameter in self._parts.keys() & wanted.keys():
            self._give_room_back(parameter, optimizer)
        pieces = cut(wanted, self._largest_bytes)
        store = self._slower.store(sum(piece.bytes for piece in pieces), instead_of)
        offset = 0
        for number, piece in enumerate(pieces, len(self._pieces) + 1):
            piece.store, piece.offset = store, offset
            piece.name = f"piece {number} of the optimizer's state"
            offset += piece.bytes
            for part in piece.parts:
                self._parts.setdefault(part.parameter, []).append((part, piece))
        self._stores.append(store)
        self._pieces += pieces

    def _give_room_back(self, parameter: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
        optimizer.state.get(parameter)  # brings it back
        for part, piece in self._parts.pop(parameter):
            piece.parts.remove(part)

    def _lacks_room(self, parameter: torch.Tensor, names: Collection[str]) -> bool:
        parts = self._parts.get(parameter)
        return not set(names) <= (set(parts[0][0].names) if parts else set())

    def _counted(self) -> Moved:
        return sum((Moved(*store.moved) for store in self._stores), Moved())


def _trained(part: Part) -> torch.Tensor:
    """What the optimizer updates in the part's place: the parameter, or a tensor that shares its
    memory, with a gradient that shares that of the parameter's."""
    if part.is_whole:
        return part.parameter
    tensor = part.of(part.parameter)
    tensor.grad = part.of(part.parameter.grad)
    return tensor


def _state_of(part: Part, held: dict | None, memory: torch.Tensor | None) -> dict:
    """The part's state: of what is in memory, or of the memory of its piece; empty where there is
    none."""
    if held is None:
        return {} if part.numbers is None else part.numbers | part.tensors_in(memory)
    if part.is_whole:
        return held
    return {name: part.of(value) if name in part.names and value is not None else value
            for name, value in _copied(held, part.names).items()}


def _pack(states: Mapping[Part, dict], memory: torch.Tensor) -> dict[Part, dict]:
    """Puts the tensors of the parts' state into the memory of their piece, where they are not
    there yet. By part, what else its state has; parts without state are left out."""
    numbers = {}
    for part, state in states.items():
        if all(isinstance(state.get(name), torch.Tensor) for name in part.names):
            for name, place in part.tensors_in(memory).items():
                if state[name].data_ptr() != place.data_ptr():
                    place.copy_(state[name])
            numbers[part] = {name: value for name, value in state.items()
                             if name not in part.names}
    return numbers


def _copied(state: Mapping, but: Collection[str] = ()) -> dict:
    return {name: value.clone() if isinstance(value, torch.Tensor) and name not in but else value
            for name, value in state.items()}


def _is_like(tensor: object, layout: torch.Tensor, device: torch.device) -> bool:
    return (isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided
            and tensor.shape == layout.shape and tensor.dtype == layout.dtype
            and tensor.device == device)


def _is_laid_out(parameter: torch.Tensor, layout: torch.Tensor) -> bool:
    return (parameter.shape == layout.shape and parameter.stride() == layout.stride()
            and parameter.dtype == layout.dtype)
