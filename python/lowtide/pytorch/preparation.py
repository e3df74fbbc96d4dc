"""What ``lowtide.wrap`` does with example inputs."""

from __future__ import annotations

import torch
from torch._dynamo.exc import TorchRuntimeError

from .autograd.session import Session
from .common.inputs import arguments_of
from .common.module_state import unchanged
from .common.notices import warn
from .common.prepared import Prepared
from .dynamo.errors_of_ops import caught_by_model, runs_as_it_is
from .inductor.mode import InductorMode
from .planned_class import session_of


def prepare(model: torch.nn.Module, planned: torch.nn.Module, example_inputs) -> None:
    """Captures and plans what one call runs, and runs nothing."""
    session = session_of(planned)
    arguments, named = arguments_of(example_inputs)
    session.preparing = True
    try:
        with unchanged(model):
            planned(*arguments, **named)
    except Prepared:
        pass
    except TorchRuntimeError as error:
        if not isinstance(session, Session):  # what is compiled is one graph
            raise
        with unchanged(model):
            if not runs_as_it_is(model.forward, arguments, named):
                raise
        session.why_unplanned = caught_by_model(error)
    finally:
        session.preparing = False
    _say_what_was_not_planned(model, session)


def _say_what_was_not_planned(model: torch.nn.Module, session: Session | InductorMode) -> None:
    name = type(model).__name__
    if not torch.is_grad_enabled():
        warn(f"nothing of {name} was planned: wrap() was called under torch.no_grad(), where there "
             f"is no backward pass to plan; call it outside")
    elif not session.has_plans:
        why = session.why_unplanned or "no tensor that needs a gradient was captured"
        warn(f"nothing of {name} was planned by wrap(): {why}. What a step meets that can be "
             f"traced is planned then")
    elif not model.training:
        warn(f"{name} is in eval mode, and its step was planned as such; call {name}.train() "
             f"before wrap() to plan a step of training")
