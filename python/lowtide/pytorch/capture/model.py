"""From a model and example inputs to a graph file."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable

import torch
from torch._dynamo import exc
from torch._dynamo.backends.common import aot_autograd

from ... import Graph, InputError, _core
from ...arguments import checked_count
from ...interruptible import no_interrupt_lost
from ..common.inputs import arguments_of
from ..common.one_trace import ONE_TRACE_AT_A_TIME
from ..common.stash_kinds import require_stash_kind
from ..joint_graph.primals import mutated_primals
from ..joint_graph.shared_casts import casts_are_shared, share_casts
from ..slices import in_slices
from ..stash import of_use, stashed, stashes_of
from .breaks import all_breaks, break_of
from .captured import Captured
from .eager_kernels import eager_kernels
from .joint import from_joint
from .meta import as_on
from .present_device import present_device
from .roofline import priced
from .sources import describe_inputs, describe_primals
from .tracing import each_warning_once, tracing_settings


def capture(
    model: Callable,
    example_inputs: object,
    *,
    name: str | None = None,
    path: str | os.PathLike[str] | None = None,
    device: str | torch.device | None = None,
    like: str | None = None,
    slices: int = 1,
    stash: str | None = None,
) -> Graph:
    """The training step of a model, forward and backward, as a graph that can be planned.

    ``model`` is a module, in the mode in which it is (``train()`` or ``eval()``), or a function;
    ``example_inputs`` a tuple or list of its arguments, a mapping of them by name, or one tensor.
    Only shapes and dtypes are looked at: nothing is computed, and the model, its gradients and the
    random numbers stay as they are. Where the model returns no loss, the gradients of its outputs
    are inputs of the step, made by the op ``lowtide::boundary``; with ``path`` the graph is saved
    there, too. A model that this machine cannot hold is given on the device ``meta``.

    ``device``: where the step is to run, such as ``"cuda"``, wherever the model is; without it that
    is where the model is, or the CPU for one on ``meta``. ``like``: costs are estimates by the data
    sheet of this device, such as ``"h100"``; without it, by the rates of a few cores of a server.
    For a GPU that this machine lacks there is ``python -m lowtide capture --device cuda``.
    ``slices``: in how many the rows of a batch run, one after the other, as of ``wrap``.
    ``stash``: of which kinds of ``wrap`` all values are held in fewer bits that may be; None: none.

    Raises InputError when the model cannot be traced as one graph, with the lines that break it,
    when nothing in it needs a gradient, for ops that cannot be planned, for a device that is not
    here and for a name of a device that is not known.
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile wrapped
    name = name or _name_of(model)
    if like is not None:
        _core.device_rates(like)  # before the work
    rewriting = _Rewriting(checked_count("slices", slices, 1), require_stash_kind(stash))
    to_device = None if device is None else present_device(device)
    graph = priced(_trace(*as_on(to_device, model, *arguments_of(example_inputs)), name, rewriting),
                   like)
    if path is not None:
        graph.save(path)
    return graph


class _Recorded(Exception):
    """Ends tracing when there is what was asked for."""

    def __init__(self, captured: Captured | None):
        super().__init__("the step is recorded")
        self.captured = captured


@dataclasses.dataclass(frozen=True)
class _Rewriting:
    """What becomes of the joint graph before it is written. Raises InputError where it cannot."""

    slices: int
    stash: str | None

    def of(self, joint, num_fwd_outputs, roles, name):
        joint, slices = in_slices(joint, num_fwd_outputs, roles, self.slices)
        if slices < min(self.slices, 2):
            raise InputError(f"Nothing in {name} can run in slices, as no op treats the rows "
                             f"of the first or second dimension of its inputs apart: leave slices "
                             f"out.")
        if self.stash is None:
            return joint
        return stashed(joint, of_use(stashes_of(joint, num_fwd_outputs, self.stash)))


class _Recorder:
    """A backend for torch.compile that compiles nothing."""

    def __init__(self, name, rewriting):
        self.name, self.rewriting = name, rewriting

    def __call__(self, module, inputs):
        self.inputs = describe_inputs(module, inputs)
        self.casts_once = casts_are_shared(module)
        backend = aot_autograd(fw_compiler=self._without_gradients, partition_fn=self._record)
        with eager_kernels():
            return backend(module, inputs)

    def _record(self, joint, joint_inputs, *, num_fwd_outputs, **_):
        roles, names = describe_primals(joint, self.inputs)
        if self.casts_once:
            share_casts(joint, num_fwd_outputs, roles)
        joint = self.rewriting.of(joint, num_fwd_outputs, roles, self.name)
        raise _Recorded(from_joint(joint, num_fwd_outputs, name=self.name, primal_roles=roles,
                                   primal_names=names, updated=mutated_primals(joint)))

    def _without_gradients(self, module, inputs):
        raise _Recorded(None)


def _trace(model, args, kwargs, name, rewriting):
    compiled = torch.compile(model, backend=_Recorder(name, rewriting), fullgraph=True,
                             dynamic=False)
    try:
        with (ONE_TRACE_AT_A_TIME, no_interrupt_lost(), torch.enable_grad(), tracing_settings(),
              each_warning_once()):
            compiled(*args, **kwargs)
    except exc.BackendCompilerFailed as error:
        return _recorded(error.inner_exception, name)
    except exc.Unsupported as error:
        raise InputError(_broken(model, args, kwargs, name, error)) from None
    except exc.TorchDynamoException as error:
        raise InputError(f"{name} cannot be traced with these example inputs: {break_of(error)}"
                         ) from None
    except TypeError as error:
        raise InputError(f"{name} cannot be called with these example inputs: {error}") from None
    raise InputError(f"{name} runs no op that PyTorch could trace.")


def _recorded(cause, name):
    if isinstance(cause, InputError):
        raise cause from None
    if not isinstance(cause, _Recorded):
        raise InputError(f"PyTorch cannot make the gradients of {name}: {cause}") from cause
    if cause.captured is None:
        raise InputError(f"Nothing that {name} returns needs a gradient, so there is no training "
                         f"step to capture.")
    return cause.captured


def _broken(model, args, kwargs, name, error):
    """Says where; for a module all the places, which takes running a copy of it."""
    regions, places = 0, []
    if isinstance(model, torch.nn.Module):
        # A copy may fail in every way; the place of the first break is known.
        with contextlib.suppress(Exception):
            regions, places = all_breaks(model, args, kwargs)
    into = f" into {regions} regions" if regions > 1 else ""
    lines = "".join(f"\n  {place}" for place in places or [break_of(error)])
    return (f"{name} cannot be captured as one graph. PyTorch's tracer breaks it{into} at:{lines}\n"
            f"Rewrite these lines, or capture the parts between them on their own.")


def _name_of(model):
    if isinstance(model, torch.nn.Module):
        return type(model).__name__
    return getattr(model, "__name__", type(model).__name__)
