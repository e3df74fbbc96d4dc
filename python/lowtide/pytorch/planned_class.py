"""The class of a wrapped module: derived from the model's own, over the same attributes."""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from .. import InputError
from .autograd.session import Session
from .budget.budget import Budget
from .budget.memory import Memory
from .common.inputs import require_one_device

if TYPE_CHECKING:
    from .inductor.mode import InductorMode


def session_of(model: torch.nn.Module) -> Session | InductorMode:
    """The session of a wrapped module. Raises InputError for another one."""
    session = getattr(type(model), "_lowtide_session", None)
    if session is None:
        raise InputError(f"{type(model).__name__} is not wrapped: call lowtide.wrap(model, ...) "
                         f"and use what it returns")
    return session


def plain_module(model):
    """What a wrapped module was made of, whose block is given back; any other as it is. Raises
    InputError where another tool has exchanged the wrapped one's forward, which would be lost."""
    if getattr(type(model), "_lowtide_session", None) is None:
        return model
    forward = vars(type(model)).get("forward")
    if isinstance(forward, OwnForward) and forward.is_exchanged:
        raise InputError(f"{type(model).__name__} is wrapped already, and its forward was "
                         f"exchanged since, as accelerator.prepare does: wrap the plain module, "
                         f"and prepare that again")
    session_of(model).release()
    return type(model)._lowtide_plain


def planned_forward(model: torch.nn.Module, run: Callable) -> OwnForward:
    """The forward method of the planned object, with the signature of the model's, by ``run``."""
    def forward(self, *arguments, **named):
        # Another object of the class, as a slice of a Sequential is. Dynamo cannot compare these.
        if not torch.compiler.is_compiling() and self.__dict__ is not model.__dict__:
            return type(model).forward(self, *arguments, **named)
        try:
            return run(*arguments, **named)
        except RuntimeError:
            require_one_device(self, arguments, named)
            raise
        except AttributeError:
            _require_parametrized_before(model)
            raise

    forward.__doc__ = model.forward.__doc__
    forward.__signature__ = _signature_with_self(model)  # type: ignore[attr-defined]
    return OwnForward(forward)


def in_class_of_its_own(model: torch.nn.Module, session: Session | InductorMode,
                        exchanged: Mapping[str, object]) -> torch.nn.Module:
    """An object of a class derived from the model's, over the same attributes but those that are
    ``exchanged``."""
    plain = type(model)

    def memory(self) -> Memory:
        """What a step was planned to take and took, in bytes."""
        return session.memory()

    def budget_bytes(self) -> int | None:
        """Of a step, in bytes; None for no limit. What is set holds from the next pass on, as of
        ``lowtide.set_budget``."""
        return session.budget_bytes

    def set_budget(self, budget: Budget | int | str | None) -> None:
        session.set_budget(Budget.parse(budget))

    def reduce(protocol):
        return _itself, (model,)

    def deepcopy(self, memo):
        return copy.deepcopy(model, memo)

    body = {
        "__doc__": plain.__doc__, "__module__": plain.__module__,
        # Before one of the object's own, which it shares with the model.
        "__reduce_ex__": property(lambda self: reduce), "__deepcopy__": deepcopy, **exchanged,
        "_lowtide_session": session, "_lowtide_plain": model,
    }
    if not hasattr(model, "memory"):
        body["memory"] = property(memory)
    if not hasattr(model, "budget"):
        body["budget"] = property(budget_bytes, set_budget)
    planned_class: Any = types.new_class(plain.__name__, (PlannedModule, plain),
                                         exec_body=lambda namespace: namespace.update(body))
    planned = planned_class.__new__(planned_class)
    planned.__dict__ = model.__dict__
    return planned


def _require_parametrized_before(model: torch.nn.Module) -> None:
    """Raises InputError where a parameter of the model itself was parametrized after wrapping:
    the parametrization is then an attribute of the wrapped one's class, which the model lacks."""
    for name in getattr(model, "parametrizations", ()):
        if not hasattr(type(model), name):
            kind = type(model).__name__
            raise InputError(f"\"{name}\" of {kind} was parametrized after {kind} was wrapped, as "
                             f"weight_norm does: parametrize the module that you gave to wrap, and "
                             f"wrap it again") from None


class OwnForward:
    """``forward`` of a planned object, which is no attribute that it shares with the model: what is
    set on the planned object, as Accelerate does, is its own and may call what was there before;
    what is set on the model is planned."""

    def __init__(self, planned: Callable):
        self._planned, self._other = planned, None

    @property
    def is_exchanged(self) -> bool:
        return self._other is not None

    def __get__(self, instance, owner=None):
        if instance is None:
            return self._planned
        return self._other or types.MethodType(self._planned, instance)

    def __set__(self, instance, other):
        self._other = other
        type(instance).__call__ = _call_of_another_forward

    def __delete__(self, instance):
        if self._other is None:
            raise AttributeError("forward")
        self._other = None
        del type(instance).__call__


def _call_of_another_forward(self, *arguments, **named):
    """Calls the planned object, whose forward another tool has exchanged, and says where that calls
    the model's parts itself, as of a loss that takes the last layer in chunks."""
    session, model = type(self)._lowtide_session, type(self)._lowtide_plain
    call = type(model).__call__
    if (torch.compiler.is_compiling() or not torch.is_grad_enabled()
            or not isinstance(session, Session)):
        return call(self, *arguments, **named)
    runs = session.runs
    result = call(self, *arguments, **named)
    if session.runs == runs:
        why = (f"{_where_defined(self.forward)} exchanged its forward after it was wrapped, for "
               f"one that does not call the planned one: wrap it after that, so that the new one "
               f"is planned")
        session.note_unplanned(f"{type(model).__name__} ran without a plan: {why}", why,
                               "another forward")
    return result


def _where_defined(function: Callable) -> str:
    """The module, whose name ``functools.wraps`` leaves in the globals alone."""
    known = getattr(getattr(function, "__func__", function), "__globals__", {})
    return known.get("__name__", "another tool")


class PlannedModule:
    """The first base of all planned classes: these are no subclasses for a model's own registry."""

    def __init_subclass__(cls, **_):
        pass


def _signature_with_self(model: torch.nn.Module) -> inspect.Signature:
    known = inspect.signature(model.forward)
    self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [parameter.replace(kind=parameter.POSITIONAL_OR_KEYWORD)
                  if parameter.kind is parameter.POSITIONAL_ONLY else parameter
                  for parameter in known.parameters.values()]
    return known.replace(parameters=[self, *parameters])


def _itself(model):
    """What unpickling a wrapped module gives: its pickle holds the plain one."""
    return model
