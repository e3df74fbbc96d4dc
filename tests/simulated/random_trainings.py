"""Random models trained on the simulated device within random budgets, beside eager on the CPU.

    PYTHONPATH=tests/python python tests/simulated/random_trainings.py --from 0 --to 200

A seed draws a model, and for it some budgets between the smallest and what keep-all takes, each
with its own delays of streams. The models are those of tests/python/differential.py, and some with
an LSTM before them. A model is traced once: the traces take longer than all else.
"""

import argparse
import contextlib
import copy
import functools
import gc
import random
import warnings

import differential
import lowtide
import torch
from lowtide.pytorch import simulated
from lowtide.pytorch.budget.budget import Budget
from lowtide.pytorch.wrap import session_of
from torch import nn

DEVICE = "simulated"
#: Of each model.
BUDGETS = 5


class Recurrent(differential.Heads):
    """PyTorch traces its layer cell by cell, so it is compared with a trace without a budget."""

    def __init__(self, heads):
        nn.Module.__init__(self)
        self.body = nn.Sequential(heads.body[0], Sequences(), *heads.body[1:])
        self.first, self.second = heads.first, heads.second


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(differential.WIDTH, differential.WIDTH, batch_first=True)

    def forward(self, x):
        return self.layer(x)[0]


class Case(differential.Case):
    def __init__(self, draw):
        super().__init__(draw)
        self.late_hook = False  # the budget is of the model as it is given
        if draw.random() < 0.8:  # a size more is a trace more
            self.rows = [differential.ROWS] * 3
        self.is_recurrent = self.may_share and draw.random() < 0.15
        #: Shares of the way from the smallest budget to what keep-all takes.
        self.budgets = [draw.random()**2 for _ in range(BUDGETS)]
        self.has_own_stream = [draw.random() < 0.5 for _ in range(BUDGETS)]


def drawn(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    case = Case(draw)
    model = differential.module_from(draw, case, most=4)
    return case, (Recurrent(model) if case.is_recurrent else model).to(case.dtype)


class Planned:
    """A wrapped model, whose budget and parameters may be set anew."""

    def __init__(self, case, model):
        self.case, self.start = case, copy.deepcopy(model.state_dict())
        shape = max(case.rows), differential.LENGTH, differential.WIDTH
        x = torch.zeros(shape, dtype=case.dtype).to(DEVICE)
        with case.context(DEVICE):
            self.model = lowtide.wrap(model.to(DEVICE), x, optimizer=case.optimizer,
                                      time_limit=0.3, cache=False)
            keep_all = self.model.memory.planned_peak
            self.set_budget(1)
            try:
                self.model(x)
            except lowtide.InfeasibleError as refused:
                self.smallest = refused.smallest_budget
            # A budget leaves some bytes to other code, which keep-all alone does not count.
            self.keep_all = max(keep_all, self.smallest)

    def set_budget(self, budget):
        session_of(self.model)._account.set_budget(Budget.parse(budget))

    def trained(self, seed, budget=None):
        """From the start, and what a count by the device finds to be more than the budget."""
        self.set_budget(budget)
        self.model.zero_grad()
        self.model.load_state_dict(self.start)
        counted = Counted(self.model, keeps_gradients=self.case.passes > 1)
        left = differential.trained(self.model, self.case, seed, DEVICE, counted.each_pass)
        assert self.model.memory.budget == budget
        return left, counted.too_many


class Counted:
    """The device's own count of the bytes of each pass, beside the budget."""

    def __init__(self, model, keeps_gradients):
        self.model, self.keeps_gradients, self.too_many = model, keeps_gradients, []

    @contextlib.contextmanager
    def each_pass(self):
        torch.simulated.reset_peak_memory_stats()
        yield
        peak = torch.simulated.memory_stats()["requested_bytes.all.peak"]
        memory = self.model.memory
        if memory.budget is None:
            return
        # Once a training has begun it goes on where kept gradients leave no room for any plan.
        most = max(memory.budget, memory.planned_peak) if self.keeps_gradients else memory.budget
        if peak - memory.outside > most:
            self.too_many.append(f"{peak} bytes, {memory}")


@functools.cache
def own_stream():
    """With it, what kernels write is late for others."""
    return torch.simulated.Stream()


@contextlib.contextmanager
def in_stream(is_own):
    default, own = torch.simulated.current_stream(), own_stream()
    own.wait_stream(default)
    with torch.simulated.stream(own if is_own else default):
        yield
    default.wait_stream(own)


def fault(seed):
    """What is not as it should be with what the seed draws; None where all is."""
    case, model = drawn(seed)
    own_stream()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager = differential.trained(copy.deepcopy(model), case, seed)
        planned = Planned(case, model)
        wanted = planned.trained(seed)[0] if case.is_recurrent else eager
        found = []
        for number, (share, is_own) in enumerate(zip(case.budgets, case.has_own_stream)):
            budget = int(planned.smallest + share * (planned.keep_all - planned.smallest))
            simulated.reseed(BUDGETS * seed + number)
            with in_stream(is_own):
                got, too_many = planned.trained(seed, budget)
            differing = [i for i, pair in enumerate(zip(got, wanted)) if not torch.equal(*pair)]
            if differing or too_many:
                found.append(f"run {number}, budget {budget}: tensors {differing} of {len(wanted)} "
                             f"differ; {too_many}")
    return f"seed {seed}: {'; '.join(found)}\n{case}\n{model}" if found else None


def forget():
    """What was traced, and the memory that it holds."""
    torch._dynamo.reset()
    gc.collect()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--to", type=int, default=200, dest="end")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    simulated.install(256 << 20)
    faults = 0
    for seed in range(arguments.first, arguments.end):
        try:
            found = fault(seed)
        except Exception as error:
            found = f"seed {seed}: {error!r}"
        if found is not None:
            print(found, flush=True)
            faults += 1
        forget()
    print(f"{BUDGETS * (arguments.end - arguments.first)} trainings, "
          f"{faults} models with faults")
    raise SystemExit(faults > 0)


if __name__ == "__main__":
    main()
