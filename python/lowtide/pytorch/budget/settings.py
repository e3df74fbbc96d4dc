"""The settings of a planned model: its budget, and how plans are searched for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import torch

from ... import InputError, _core
from ...arguments import checked_count, checked_options, checked_seconds, checked_strategy
from ..common.fused_update import FusedUpdate
from ..common.precision import require_precision
from ..common.progress import Progress
from ..common.silence import aloud
from ..common.stash_kinds import changes_gradients, require_stash_kind
from ..shards.group import GROUPS, Group
from ..shards.layout import GraphLayout
from .budget import Budget
from .may_move import MayMove
from .offload import Offload, slower_limit
from .optimizer_state import optimizer_state_bytes

#: What runs a planned model: Lowtide's executor, or the code that Inductor makes.
MODES = ("executor", "inductor")

#: Of a number that is to be found.
AUTO = "auto"

#: Seconds of planning for each graph at most, where no one asks for others; most end before.
TIME_LIMIT = 30.0

#: Strategies by which nothing moves: that of reruns, and the one by which every op runs once.
_ONLY_RERUNS, _KEEP_ALL = "search", "keep-all"
#: Those that decide about parameters too: both ways, and moves alone.
_MOVE_PARAMETERS = (None, "offload")

#: Of the default strategy's local search, in thousands: for a few thousand ops it ends before the
#: time limit does, so that a plan is the same on every start and every machine with these costs.
MOVES = 1000


@dataclasses.dataclass(frozen=True)
class Settings:
    """``budget``: where it is a share, of what the same step takes when all values are kept.
    ``optimizer``: an optimizer, its class, or one of the names of ``optimizer_state.STATES``; None
    counts what Adam would hold. ``time_limit``: seconds of planning for each graph at most; most
    end before. ``cache``: whether plans are kept for later runs; ``"refresh"``: they are, and none
    of an earlier run is used; None: they are where the mode keeps any, which Inductor's does not.
    ``report``: gets one line for each stage of the work; None is silent. ``mode``: one of
    ``MODES``. ``when_infeasible``: whether a step that no plan fits raises InfeasibleError, or runs
    by the plan that needs the least, with a warning; None raises until a step was run to its end,
    and warns from then on. ``batches_ahead``: how many batches the data loader holds beside the one
    in use. ``verbose``: whether measuring and planning that take long are told of on standard
    error, where there is no ``report``. ``cuda_graph``: whether each pass is recorded once as a
    graph of the device, and submitted as one afterwards. ``offload``: where values may move that do
    not fit; ``offload_budget``: how many bytes may lie there, None for what is free.
    ``precision``: what the model computes in, ``"bf16"`` or ``"fp16"`` as ``torch.autocast`` has
    it, or None, as the caller does. ``slices``: in how many the rows of a batch run; ``AUTO``:
    in one, or the power of two whose plan is the fastest. ``fused_update``: how the backward pass
    updates each parameter; None: it does not. ``stash``: what may be held in fewer bits between the
    passes, ``"exact"`` for what loses nothing. ``layout``: on which ranks the model is trained, and
    how its parameters lie there; None: in this process alone.
    """

    budget: Budget = Budget("None")
    optimizer: torch.optim.Optimizer | type | str | None = None
    strategy: str | None = None
    options: Mapping[str, float | str] = dataclasses.field(default_factory=dict)
    time_limit: float = TIME_LIMIT
    cache: bool | str | None = None
    report: Callable[[str], None] | None = None
    mode: str = "executor"
    when_infeasible: str | None = None
    batches_ahead: int = 0
    verbose: bool = True
    cuda_graph: bool = False
    offload: Offload | None = None
    offload_budget: int | None = None
    precision: str | None = None
    slices: int | str = 1
    fused_update: FusedUpdate | None = None
    stash: str | None = "exact"
    layout: GraphLayout | None = None
    coalesce: bool = True

    def __post_init__(self):
        _require_choice("mode", self.mode, MODES)
        _require_choice("when_infeasible", self.when_infeasible, (None, "error", "warn"))
        _require_choice("verbose", self.verbose, (True, False))
        _require_choice("cuda_graph", self.cuda_graph, (True, False))
        _require_choice("coalesce", self.coalesce, (True, False))
        if self.fused_update is not None:
            self._require_updates_are_possible()
        _require_choice("cache", self.cache, (None, True, False, "refresh"))
        require_precision(self.precision)
        require_stash_kind(self.stash)
        self._set("strategy", checked_strategy(self.strategy))
        self._set("options", checked_options(self.options))
        self._set("time_limit", checked_seconds(self.time_limit, zero_is_none=False))
        self._set("batches_ahead", checked_count("batches_ahead", self.batches_ahead, 0))
        if self.slices != AUTO:
            self._set("slices", checked_count("slices", self.slices, 1))
        if self.mode == "inductor":
            self._require_inductor_can()
        if self.offload is None:
            _core.require_options(self.strategy or "", self.options)
        else:
            self._require_offload_is_of_use()
        if self.offload is None and self.offload_budget is not None:
            raise InputError("offload_budget needs offload: \"host\" or a folder")
        if self.report is not None and not callable(self.report):
            raise InputError(f"report must be a function that gets a line of text, or None, not "
                             f"{self.report!r}")
        if self.report is not None:
            self._set("report", aloud(self.report))
        optimizer_state_bytes(self.optimizer, ())

    def without_budget(self) -> Settings:
        """Of the same step where every value is kept, so that nothing moves."""
        return dataclasses.replace(self, budget=Budget.parse(None), strategy=None, options={},
                                   offload=None, offload_budget=None)

    def require_sizes_may_vary(self) -> None:
        """Raises InputError for what plans of a range of sizes are not made with."""
        refused = {"mode": self.mode != "executor", "cuda_graph": self.cuda_graph,
                   "offload": self.offload is not None, "slices": self.slices == AUTO}
        for name, is_refused in refused.items():
            if is_refused:
                raise InputError(f"dynamic_shapes is not for {name}={getattr(self, name)!r}: leave "
                                 f"one of them out")

    def require_ranks_may_train(self) -> None:
        """Raises InputError for what is not done on several ranks."""
        refused = {"mode": self.mode != "executor", "cuda_graph": self.cuda_graph}
        for name, is_refused in refused.items():
            if is_refused:
                raise InputError(f"a mesh is not for {name}={getattr(self, name)!r} yet: leave one "
                                 f"of them out")
        for name in ("parameters", "optimizer_state"):
            if getattr(self.offload, name, None):
                raise InputError(f"{name}=True of lowtide.Offload is not for a mesh yet, on which "
                                 f"values move alone: leave one of them out; sharding=\"full\" "
                                 f"divides parameters and the optimizer's state among the ranks")

    @property
    def alike_on_ranks(self) -> str:
        """What ranks that plan together must all have, as a text."""
        return str([self.budget.bytes, self.budget.share, self.strategy,
                    sorted(self.options.items()), self.when_infeasible, self.batches_ahead,
                    self.offload is None, self.precision, self.slices, self.fused_update,
                    self.stash, self.coalesce])

    def _require_inductor_can(self) -> None:
        if self.cache:
            raise InputError(f"mode=\"inductor\" keeps no plans for later runs: leave "
                             f"cache={self.cache!r} out")
        if self.cuda_graph:
            raise InputError("cuda_graph=True is for mode=\"executor\": leave it out, and have "
                             "Inductor make graphs by torch._inductor.config.triton.cudagraphs")
        if changes_gradients(self.stash):
            raise InputError(f"stash={self.stash!r} is for mode=\"executor\": leave it out, as "
                             f"Inductor's code holds values as they are")
        if self.slices != 1:
            raise InputError(f"slices are for mode=\"executor\": leave slices={self.slices!r} out")

    def _require_updates_are_possible(self) -> None:
        if self.mode != "executor" or self.cuda_graph:
            raise InputError("fused_update is for mode=\"executor\" without cuda_graph: leave it "
                             "out, or those")
        if self.precision == "fp16":
            raise InputError("fused_update updates before a GradScaler can look at all gradients, "
                             "which precision=\"fp16\" needs: use \"bf16\", or leave it out")
        if self.offload is not None and self.offload.optimizer_state:
            raise InputError("fused_update needs the optimizer's state in memory: leave it out, or "
                             "optimizer_state=True of lowtide.Offload")

    def _require_offload_is_of_use(self) -> None:
        """Raises InputError where values could not move, or some other option would do nothing."""
        if self.mode != "executor":
            raise InputError(f"offload is for mode=\"executor\", not {self.mode!r}: leave it out")
        if self.cuda_graph:
            raise InputError("a graph of the device holds no copies to slower memory: leave out "
                             "offload or cuda_graph")
        if self.budget.is_unlimited:
            raise InputError("offload needs a budget: without one all values stay in memory")
        _core.require_moving_strategy(self.strategy or "")
        if self.offload.parameters and self.strategy not in _MOVE_PARAMETERS:
            raise InputError(f"parameters=True of lowtide.Offload would do nothing with "
                             f"strategy={self.strategy!r}, which does not move parameters: leave "
                             f"one of them out")
        if self.offload.parameters and self.fused_update:
            raise InputError("fused_update writes parameters while the backward pass runs, and "
                             "parameters=True of lowtide.Offload has them away then: leave one of "
                             "them out")
        if self.offload.parameters and changes_gradients(self.stash):
            raise InputError(f"the error of gradients by stash={self.stash!r} is measured with all "
                             f"parameters in memory, and parameters=True of lowtide.Offload is for "
                             f"those that do not fit: leave one of them out")
        if self.options:
            raise InputError(f"no strategy that moves values has the option "
                             f"{next(iter(self.options))!r}: leave options out")

    def _set(self, name: str, value) -> None:
        object.__setattr__(self, name, value)  # as dataclasses say for frozen ones

    @property
    def group(self) -> Group | None:
        """The ranks that decide together; None: this process decides alone."""
        group = None if self.layout is None else GROUPS[self.layout.group]
        assert group is None or isinstance(group, Group), "a layout has all ranks"
        return group

    @property
    def clips(self) -> bool:
        return self.fused_update is not None and self.fused_update.clips

    @property
    def keeps_plans(self) -> bool:
        """Whether plans are kept for later runs."""
        return self.cache is None or bool(self.cache)

    @property
    def may_move(self) -> MayMove:
        """What plans may move at most."""
        if self.offload is None or self.strategy == _ONLY_RERUNS:
            return MayMove.NOTHING
        return MayMove.PARAMETERS if self.offload.parameters else MayMove.VALUES

    @property
    def unmoved_strategy(self) -> str | None:
        """Of plans that move nothing: one that moves values has no other than to keep all."""
        only_moves = self.may_move and self.strategy is not None
        return _KEEP_ALL if only_moves else self.strategy

    @property
    def planning_options(self) -> dict[str, float | str]:
        """Those of the strategy, with the work of the default one."""
        return {**({} if self.strategy else {"moves": MOVES}), **self.options}

    def progress(self, what: str) -> Progress:
        """Says what is done if that takes long. One who gets reports is told by them."""
        return Progress(what, quiet=not self.verbose or self.report is not None)

    def say(self, message: str) -> None:
        if self.report is not None:
            self.report(message)


def _require_choice(name: str, value, choices: Sequence) -> None:
    if not any(value is choice or (isinstance(choice, str) and value == choice)
               for choice in choices):
        raise InputError(f"unknown {name} {value!r}: choose from {', '.join(map(str, choices))}")


def settings_from(options: Mapping | None) -> Settings:
    """Settings from the options of ``torch.compile``. InputError names an unknown one."""
    known = {field.name for field in dataclasses.fields(Settings)} - {"precision", "layout"}
    given = dict(options or {})
    if "precision" in given:
        raise InputError("the lowtide backend has no option 'precision', as the model is traced "
                         "when it is asked: call the compiled model under torch.autocast, or use "
                         "lowtide.wrap(model, ..., precision=...)")
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(
            f"the lowtide backend has no option {unknown[0]!r}; it has {', '.join(sorted(known))}")
    return Settings(**given | {
        "budget": Budget.parse(given.get("budget")),
        "offload": Offload.parse(given.get("offload")),
        "offload_budget": slower_limit(given.get("offload_budget")),
        "fused_update": FusedUpdate.parse(given.get("fused_update"))})
