"""Steps an optimizer for one parameter after the other, while a backward pass runs."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence, Set

import torch
from torch.distributed.tensor import DTensor

from ... import Error, InputError
from ..common.fused_update import FusedUpdate
from ..common.local_tensor import local_part
from ..common.spent_gradient import SpentGradient
from ..shards.placed_parameters import lying_as, on_this_rank
from .elementwise import state_tensors, why_not_by_element
from .gradient_norm import GradientNorm
from .stand_in import plain_step, stand_in


class FusedUpdates:
    """Updates each parameter by the optimizer's own step as soon as a graph has its gradient, which
    is gone afterwards: a SpentGradient stands in its place until ``optimizer.step()`` ends the
    step. Then hooks run, and parameters that no graph updated are updated.

    ``parameters``: gives those of the whole model, as it is now; none where it is not known. By
    their gradients is clipped, or by those of the optimizer's.

    Raises InputError for an optimizer that does not treat each element of a parameter alone.
    """

    def __init__(self, optimizer: object, how: FusedUpdate,
                 parameters: Callable[[], Iterable[torch.Tensor]]):
        require_by_element(optimizer)
        assert isinstance(optimizer, torch.optim.Optimizer)  # or there was a reason
        self._optimizer = optimizer
        self._updated: set[torch.Tensor] = set()
        self._used_options: list[dict] = []
        self._made_bytes = 0
        self._stepped_here: set[DTensor] = set()
        self._is_let_go = False
        self._norm = None if not how.clips else GradientNorm(
            how, lambda: list(parameters()) or self._own())
        self._hook = optimizer.register_step_pre_hook(self._before_step)

    def let_go(self) -> None:
        """Backward passes may follow, of results that outlive the wrapped model."""
        self._hook.remove()
        self._is_let_go = True
        self._drop_spent()
        self._updated.clear()

    @property
    def gradient_norm(self) -> float | None:
        """Of the last backward pass, where one was and gradients are clipped."""
        return None if self._norm is None else self._norm.last

    def prepare(self, parameters: Iterable[torch.Tensor]) -> None:
        """For a graph that is to be planned. Raises InputError where a parameter that is trained is
        not the optimizer's."""
        own = set(self._own())
        missing = [parameter for parameter in parameters
                   if parameter.requires_grad and parameter not in own]
        if self._norm is not None:
            self._norm.make_room()
        if missing:
            raise InputError(f"fused_update=True: {len(missing)} of the model's parameters are not "
                             f"the optimizer's, such as one of shape {tuple(missing[0].shape)}: "
                             f"give it all that are trained, or freeze the others by "
                             f"requires_grad_(False)")

    def take_made_bytes(self) -> int:
        """Of state that updates have made since this was last asked."""
        made, self._made_bytes = self._made_bytes, 0
        return made

    @contextlib.contextmanager
    def of_backward(self) -> Iterator[UpdatesOfPass]:
        """What updates parameters in one backward pass. Raises Error where gradients are for
        something else than updates. A pass that fails when it has updated some parameters ends
        their step: they stay as they are, and the next pass may update all."""
        before = len(self._updated)
        try:
            yield self._of_pass()
        except BaseException:
            if len(self._updated) > before:
                self._drop_spent()
                self._updated.clear()
            raise
        finally:
            self._place_state()

    def _of_pass(self) -> UpdatesOfPass:
        self._require_no_hooks()
        own = {_place(on_this_rank(parameter)): parameter for parameter in self._own()}
        left_alone = {place for place, parameter in own.items()
                      if parameter.requires_grad and not _accumulates(parameter)}
        return UpdatesOfPass(own, left_alone, self._update, self._require_fresh, self._norm)

    def _own(self) -> list[torch.Tensor]:
        return [parameter for group in self._optimizer.param_groups
                for parameter in group["params"]]

    def _require_no_hooks(self) -> None:
        for parameter in self._own():
            if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
                raise Error(f"a parameter of shape {tuple(parameter.shape)} has a hook for its "
                            f"gradient, which fused_update=True would pass by: remove the hook "
                            f"(nothing was updated), or leave fused_update out")

    def _require_fresh(self, parameter: torch.Tensor) -> None:
        """That it has no gradient in this step yet."""
        if parameter in self._updated:
            raise Error(f"a parameter of shape {tuple(parameter.shape)} gets a second gradient in "
                        f"one step, and with fused_update=True the first one has updated it. Call "
                        f"optimizer.step() after each backward(), and use it in one call of the "
                        f"model and in one graph only; or leave fused_update out")
        if parameter.grad is not None:
            raise Error(f"a parameter of shape {tuple(parameter.shape)} has a gradient before the "
                        f"backward pass, to which fused_update=True does not add: call "
                        f"optimizer.zero_grad() before, or leave fused_update out")

    def _update(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        self._require_fresh(parameter)
        if not self._updated:
            self._used_options = self._options()
        self._updated.add(parameter)
        is_new = not self._optimizer.state.get(parameter)
        if isinstance(parameter, DTensor):
            self._step_here(parameter, gradient)
        else:
            self._step(parameter, parameter, gradient, self._optimizer.state)
        if self._is_let_go:  # nothing is told when the step ends
            self._updated.discard(parameter)
        else:
            parameter.grad = SpentGradient.of(parameter)
        if is_new:
            held = self._optimizer.state.get(parameter, {})
            self._made_bytes += sum(value.nbytes for value in held.values()
                                    if isinstance(value, torch.Tensor))

    def _step(self, parameter: torch.Tensor, stepped: torch.Tensor, gradient: torch.Tensor,
              state: MutableMapping) -> None:
        """``stepped``: the parameter, or what is stepped instead."""
        groups = [[stepped] if any(parameter is own for own in group["params"]) else []
                  for group in self._optimizer.param_groups]
        stepped.grad = gradient
        try:
            plain_step(self._optimizer)(stand_in(self._optimizer, groups, state))
        finally:
            stepped.grad = None

    def _step_here(self, parameter: DTensor, gradient: torch.Tensor) -> None:
        """Of a parameter on several ranks, what is on this one: a DTensor cannot compute within an
        op. What state is made becomes one when the pass is over."""
        here = parameter._local_tensor.detach()
        held = self._optimizer.state.get(parameter, {})
        state = collections.defaultdict(dict, {here: {name: local_part(value)
                                                      for name, value in held.items()}})
        if here.shape != gradient.shape:
            gradient = gradient[:here.shape[0]]
        self._step(parameter, here, gradient, state)
        self._optimizer.state[parameter] = {
            name: held[name] if name in held and local_part(held[name]) is value else value
            for name, value in state[here].items()}
        self._stepped_here.add(parameter)

    def _place_state(self) -> None:
        """The state of parameters on several ranks lies as they do."""
        for group in self._optimizer.param_groups if self._stepped_here else ():
            names = state_tensors(self._optimizer, group)
            for parameter in group["params"]:
                if parameter in self._stepped_here:
                    held = self._optimizer.state[parameter]
                    held |= {name: lying_as(parameter, held[name]) for name in names
                             if isinstance(held.get(name), torch.Tensor)
                             and not isinstance(held[name], DTensor)}
        self._stepped_here.clear()

    def _options(self) -> list[dict]:
        """By group; of tensors among them, such as lr, which they are and how often written."""
        return [{key: (id(value), value._version) if isinstance(value, torch.Tensor) else value
                 for key, value in group.items() if key != "params"}
                for group in self._optimizer.param_groups]

    def _before_step(self, _, args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
        """A closure runs backward passes within the step, which then has nothing left to update."""
        self._end_step()
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is None:
            return None

        def run_and_end():
            loss = closure()
            self._end_step()
            return loss

        others = {key: value for key, value in kwargs.items() if key != "closure"}
        return (args[0], run_and_end, *args[2:]), others

    def _drop_spent(self) -> None:
        for parameter in self._updated:
            if isinstance(parameter.grad, SpentGradient):
                parameter.grad = None
            # Ops within a graph do not count as writes, and forward passes from before are stale.
            torch.autograd.graph.increment_version(parameter)

    def _end_step(self) -> None:
        self._drop_spent()
        twice = [parameter for parameter in self._updated if parameter.grad is not None]
        were_changed = self._updated and any(
            used != now for used, now in zip(self._used_options, self._options()))
        self._updated.clear()
        if were_changed:
            raise Error("options of the optimizer, such as lr, changed after the backward pass, "
                        "which with fused_update=True has updated parameters by the ones before. "
                        "Change them after optimizer.step(), or leave fused_update out")
        if twice:
            raise Error(f"a parameter of shape {tuple(twice[0].shape)} got a gradient after "
                        f"fused_update=True had updated it. Use it within the model only, or leave "
                        f"fused_update out")


def require_by_element(optimizer: object) -> None:
    """Raises InputError for an optimizer that cannot step one parameter after the other."""
    why_not = why_not_by_element(optimizer)
    if why_not:
        raise InputError(f"fused_update=True: {why_not}. Leave it out")


class UpdatesOfPass:
    """What the ops of a graph do in one backward pass, by the data of parameters.

    ``own``: the optimizer's parameters, by place. ``left_alone``: the places of those that this
    pass gives no gradient.
    """

    def __init__(self, own: Mapping[tuple, torch.Tensor], left_alone: Set[tuple],
                 update: Callable[[torch.Tensor, torch.Tensor], None],
                 require_fresh: Callable[[torch.Tensor], None], norm: GradientNorm | None):
        self._own, self._left_alone = own, left_alone
        self._update, self._require_fresh, self._norm = update, require_fresh, norm
        self._counted = [] if norm is None else [
            parameter for parameter in norm.counted()
            if _accumulates(parameter) or parameter.grad is not None]

    def update(self, gradient: torch.Tensor, data: torch.Tensor) -> None:
        if _place(data) not in self._own:
            raise Error(f"fused_update=True: a parameter of shape {tuple(data.shape)} is not "
                        f"the optimizer's: give it all that are trained")
        if _place(data) not in self._left_alone:
            self._update(self._own[_place(data)], gradient)

    def norms_to_clip_by(self, norms: Sequence[torch.Tensor],
                         data: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Raises Error where a gradient that counts is none of this graph's."""
        by_place = {_place(one): norm for norm, one in zip(norms, data)}
        found = []
        for parameter in self._counted:
            place = _place(on_this_rank(parameter))
            if not parameter.numel():
                found.append(torch.zeros_like(norms[0]))
            elif place in by_place:
                self._require_fresh(parameter)
                found.append(by_place[place])
            else:
                raise Error(f"the gradient of a parameter of shape {tuple(parameter.shape)} comes "
                            f"from outside of the graph whose gradients fused_update="
                            f"lowtide.FusedUpdate clips; nothing was updated. Clipping needs all "
                            f"gradients in one graph: use the parameter within the model only, "
                            f"remove graph breaks, or clip without fused_update")
        assert self._norm is not None, "the graph clips"
        return self._norm.over_ranks(found, self._counted)

    def take_total_norm(self, norm: torch.Tensor) -> None:
        assert self._norm is not None, "the graph clips"
        self._norm.take(norm)


def _accumulates(parameter: torch.Tensor) -> bool:
    """Whether this backward pass is to add to ``.grad``: not where it is for other tensors, as
    ``torch.autograd.grad`` is, or does not come by the parameter."""
    if torch._C._current_graph_task_id() == -1:
        return True
    node = torch.autograd.graph.get_gradient_edge(parameter).node
    try:
        return torch._C._will_engine_execute_node(node)
    except RuntimeError:
        raise Error("torch.autograd.grad of a parameter gets nothing where fused_update=True "
                    "updates it instead: call backward(), or leave fused_update out") from None


def _place(tensor: torch.Tensor) -> tuple:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride()
