"""Models, shardings, optimizers and loops at random, trained with a mesh or by DDP."""

import contextlib
import dataclasses
import gc
import math
import random
import re
import warnings
from unittest import mock

import lowtide
import torch
from lowtide.pytorch import on_ranks
from lowtide.pytorch.autograd import region
from lowtide.pytorch.wrap import session_of
from shards_cases import CLASSES, Gpt, mesh_of, parameters_of
from torch import nn
from torch.nn.parallel import DistributedDataParallel

MODELS = ("layers", "convolutions", "gpt")
SHARDINGS = ("none", "gradients", "full", None)
OPTIMIZERS = {
    "sgd": lambda given, foreach: torch.optim.SGD(given, lr=0.05, foreach=foreach),
    "momentum": lambda given, foreach: torch.optim.SGD(given, lr=0.05, momentum=0.9,
                                                       foreach=foreach),
    "adamw": lambda given, foreach: torch.optim.AdamW(given, lr=1e-2, foreach=foreach)}
#: What happens on all ranks, one after the other. "step": a step of one pass; "accumulate": of
#: three, two of them without communication; "two": of two forward passes and one backward pass.
EVENTS = ("step", "accumulate", "two", "fewer rows", "evaluate", "fail", "budget")

#: What is left to other code where losses are added up, in the least unit in which that is counted.
_ADDED_LOSSES = 4096
#: Of marks in what the profiler sees.
_BUDGET = "the budget is "
_SMALLEST = re.compile(r"smallest budget that does is .*? \((\d+) bytes\)")


@dataclasses.dataclass(frozen=True)
class Drawn:
    """``share``: of the range of budgets between the least and all that a step can use, and those
    of the changes of the budget. ``bucket_bytes``, ``coalesced_bytes``: of the layout, or None,
    where it is chosen."""

    seed: int
    model: str
    dropout: float
    frozen: bool
    unused: bool
    shared: bool
    has_buffer: bool
    widths: tuple[int, ...]
    rows: int
    is_half: bool
    sharding: str | None
    optimizer: str
    foreach: bool
    set_to_none: bool
    events: tuple[str, ...]
    share: float
    shares: tuple[float, ...]
    bucket_bytes: int | None
    coalesced_bytes: int


def drawn(seed):
    draw = random.Random(seed)
    width = 2 * draw.randint(4, 16) + 1
    events = ["step", *(draw.choice(EVENTS) for _ in range(5)), "step"]
    return Drawn(
        seed, draw.choice(MODELS), draw.choice((0.0, 0.3)), draw.random() < 0.3,
        draw.random() < 0.3, draw.random() < 0.3, draw.random() < 0.5,
        tuple(draw.choice((width, 2 * draw.randint(4, 24) + 1)) for _ in range(4)),
        draw.randint(2, 6), draw.random() < 0.25, draw.choice(SHARDINGS),
        draw.choice(list(OPTIMIZERS)), draw.random() < 0.5, draw.random() < 0.6, tuple(events),
        draw.random(), tuple(draw.random() for _ in events),
        draw.choice((None, 0, 1 << draw.randint(10, 24))), draw.choice((0, 1 << 12, 1 << 24)))


class RandomModel(nn.Module):
    """With its loss."""

    def __init__(self, case):
        super().__init__()
        self.body = {"layers": _layers, "convolutions": _convolutions, "gpt": _gpt}[case.model](
            case)
        self.dropout = nn.Dropout(case.dropout)
        if case.unused:
            self.unused = nn.Linear(*case.widths[:2])
        if case.has_buffer:
            self.register_buffer("scale", torch.full((1,), 1.5))
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        if case.frozen:
            first = next(parameter for parameter in self.parameters() if parameter.dim() > 1)
            first.requires_grad_(False)

    def forward(self, x, targets):
        scores = self.dropout(self.body(x))
        if hasattr(self, "scale"):
            scores = scores * self.scale
            self.calls += 1
        return nn.functional.cross_entropy(scores.flatten(0, -2).float(), targets.flatten())


def _layers(case):
    widths = [*case.widths, CLASSES]
    layers = [nn.Linear(*pair) for pair in zip(widths, widths[1:])]
    if case.shared:
        layers.insert(1, nn.Linear(widths[1], widths[1]))
        layers.insert(2, layers[1])
    return nn.Sequential(*(part for layer in layers[:-1]
                           for part in (layer, nn.Tanh(), nn.Dropout(case.dropout))),
                         nn.LayerNorm(widths[-2]), layers[-1])


def _convolutions(case):
    first, second = (width // 2 + 1 for width in case.widths[:2])
    middle = nn.Conv2d(first, first, 3, padding=1)
    return nn.Sequential(
        nn.Conv2d(3, first, 3, padding=1, bias=False), nn.BatchNorm2d(first), nn.ReLU(),
        middle, nn.ReLU(), *((middle, nn.ReLU()) if case.shared else ()),
        nn.Conv2d(first, second, 3, stride=2, bias=False), nn.BatchNorm2d(second), nn.ReLU(),
        nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(second, CLASSES))


class _Scores(Gpt):
    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def _gpt(case):
    return _Scores(vocabulary=case.widths[0] + 20, width=8 * (case.widths[1] % 4 + 1))


def made(case):
    torch.manual_seed(case.seed)
    return RandomModel(case)


def batches(case, rank):
    """For each event those of its passes."""
    generator = torch.Generator().manual_seed(1000 * case.seed + rank)
    passes = {"accumulate": 3, "two": 2, "budget": 0}
    return [[_batch(case, generator, max(1, case.rows - (event == "fewer rows")))
             for _ in range(passes.get(event, 1))] for event in case.events]


def _batch(case, generator, rows):
    if case.model == "gpt":
        return tuple(torch.randint(0, case.widths[0] + 20, (rows, 16), generator=generator)
                     for _ in range(2))
    shape = (3, 12, 12) if case.model == "convolutions" else case.widths[:1]
    # Batch norm of one row of one value is refused.
    return (torch.randn(rows + 1, *shape, generator=generator),
            torch.randint(0, CLASSES, (rows + 1,), generator=generator))


def stepper(case, model):
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return OPTIMIZERS[case.optimizer](trained, case.foreach)


class Failed(Exception):
    """What a loop raises between two passes."""


def run_loop(case, model, optimizer, given, change=lambda share: None,
             unlimited=contextlib.nullcontext):
    """The losses. ``change`` gets the share of a new budget. What no plan is for is done within
    ``unlimited()``."""
    losses = []

    def loss_of(batch):
        with torch.autocast("cpu", torch.bfloat16, enabled=case.is_half):
            return model(*batch)

    def accumulate(passes):
        with model.no_sync():
            for batch in passes[:-1]:
                backward(loss_of(batch))
        backward(loss_of(passes[-1]))

    def backward(loss):
        loss.backward()
        losses.append(loss.item())

    def step(passes):
        if len(passes) == 3:
            accumulate(passes)
        else:
            backward(sum(map(loss_of, passes)) if len(passes) > 1 else loss_of(passes[0]))
        optimizer.step()
        optimizer.zero_grad(set_to_none=case.set_to_none)

    def fail(passes):
        try:
            loss_of(passes[0])
            raise Failed
        except Failed:
            pass

    def evaluate(passes):
        model.eval()
        with torch.no_grad(), unlimited():
            losses.append(loss_of(passes[0]).item())
        model.train()

    def fewer_rows(passes):
        # Another size is traced when it is met first, which no budget is for.
        with contextlib.nullcontext() if "fewer rows" in met else unlimited():
            step(passes)

    parts, met = {"evaluate": evaluate, "fail": fail, "fewer rows": fewer_rows}, set()
    torch.manual_seed(case.seed)
    for event, passes, share in zip(case.events, given, case.shares):
        if event == "budget":
            change(share)
        else:
            parts.get(event, step)(passes)
        met.add(event)
    return losses


def of_ddp(rank, case):
    """Losses and parameters, trained by DistributedDataParallel."""
    model = DistributedDataParallel(made(case), find_unused_parameters=case.unused,
                                    broadcast_buffers=False)
    losses = run_loop(case, model, stepper(case, model), batches(case, rank))
    return losses, parameters_of(model)


def layout_of(case):
    """While it lasts, collectives are of as many bytes as were drawn."""
    candidates = on_ranks.candidates

    def with_buckets(*arguments):
        usual = candidates(*arguments)
        if case.bucket_bytes is None:
            return usual
        return [dataclasses.replace(usual[-1], bucket_bytes=case.bucket_bytes,
                                    exchange_bytes=2 * case.bucket_bytes,
                                    coalesced_bytes=case.coalesced_bytes)]

    return mock.patch.object(on_ranks, "candidates", with_buckets)


def wrapped(case, rank, ranks, budget):
    torch._dynamo.reset()  # what other models of this process taught it about sizes
    model = made(case)
    optimizer = stepper(case, model)
    with layout_of(case), torch.autocast("cpu", torch.bfloat16, enabled=case.is_half):
        return lowtide.wrap(model, batches(case, rank)[0][0], budget, optimizer=optimizer,
                            mesh=mesh_of(ranks), sharding=case.sharding, cache=False,
                            time_limit=0.1, verbose=False), optimizer


def budgets_of(rank, case, ranks):
    """The least budget that all steps of the loop can do with, and what they take without any."""
    model, optimizer = wrapped(case, rank, ranks, None)
    run_loop(case, model, optimizer, batches(case, rank))
    session = session_of(model)
    least = max(session._step_plans.smallest_budget(region) for region in session.regions)
    return least + _ADDED_LOSSES, lowtide.memory(model).planned_peak


class Budgets:
    """Those of a model, one after the other, each with a mark in what the profiler sees."""

    def __init__(self, model, least, most, first):
        self._model, self._least, self._most, self._now = model, least, most, first
        self._unlimited = 0  # what has no budget may be a part of what has none

    def change(self, share):
        """To one that is smaller than all steps need it may not be changed, but to the smallest
        one that does."""
        budget = within(self._least, self._most, share)
        mark(max(self._now, budget))
        try:
            lowtide.set_budget(self._model, budget)
        except lowtide.InfeasibleError as error:
            budget = error.smallest_budget
            mark(max(self._now, budget))
            lowtide.set_budget(self._model, budget)
        self._now = budget
        mark(budget)

    @contextlib.contextmanager
    def unlimited(self):
        session_of(self._model).release()
        with self._no_mark():
            yield

    def measuring_unlimited(self):
        """Ops of a graph are measured when it is met first, which no budget is for."""
        measure = region.measure

        def measured(*arguments):
            with self._no_mark():
                return measure(*arguments)
        return mock.patch.object(region, "measure", measured)

    @contextlib.contextmanager
    def _no_mark(self):
        self._unlimited += 1
        mark(math.inf)
        yield
        self._unlimited -= 1
        mark(math.inf if self._unlimited else self._now)


def within(least, most, share):
    return int(least + share * max(0, most - least))


def mark(budget):
    with torch.profiler.record_function(f"{_BUDGET}{budget}"):
        pass


def exceeded(events, in_use):
    """Peaks that were above the budget of their time, by a count that is not Lowtide's. ``in_use``:
    before the first event. What is done without a budget leaves nothing behind: the threads of Gloo
    free tensors later, which the profiler does not see."""
    found, peak, budget = [], in_use, math.inf
    for event in sorted(events, key=lambda event: event.start_ns()):
        if event.name().startswith(_BUDGET):
            budget, peak = float(event.name().removeprefix(_BUDGET)), in_use
        elif event.name() == "[memory]" and budget < math.inf:
            in_use += event.nbytes()
            if in_use > max(peak, budget):
                peak = in_use
                found.append((peak, budget))
    return found


@dataclasses.dataclass(frozen=True)
class Trained:
    """``over``: peaks above the budget; ``named``: the largest budget that a warning names, 0 for
    none."""

    losses: list
    parameters: dict
    over: list
    said: list

    @property
    def named(self):
        return max((int(size) for text in self.said for size in _SMALLEST.findall(text)), default=0)


def within_budget(rank, case, ranks, least, most):
    given, first = batches(case, rank), within(least, most, case.share)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model, optimizer = wrapped(case, rank, ranks, first)
        # What the profiler does not see: parameters, and the largest of the batches that are there.
        in_use = storage_bytes([*model.parameters(), *model.buffers()]) + max(
            sum(tensor.nbytes for tensor in batch) for passes in given for batch in passes)
        budgets = Budgets(model, least, most, first)
        gc.collect()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                    profile_memory=True) as profile:
            mark(first)
            with budgets.measuring_unlimited():
                losses = run_loop(case, model, optimizer, given, budgets.change, budgets.unlimited)
    over = exceeded(profile.profiler.kineto_results.events(), in_use)
    session_of(model).release()
    return Trained(losses, parameters_of(model), over, [str(one.message) for one in said])


def storage_bytes(tensors):
    storages = {local.untyped_storage().data_ptr(): local.untyped_storage().nbytes()
                for tensor in tensors
                for local in [getattr(tensor, "_local_tensor", tensor)]}
    return sum(storages.values())
