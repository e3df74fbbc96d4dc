"""Random options of wrap and random training loops, beside eager PyTorch, compared bit for bit.

    python tests/python/differential_options.py --seconds 1800 --seed 1000

The models are those of differential.py, the budgets lie between the smallest and twice what a step
takes. The peak that is measured is compared with the budget, where the model computes its own loss.
With LOWTIDE_TEST_DEVICE=simulated both models are on the simulated device.
"""

import collections
import contextlib
import copy
import dataclasses
import gc
import pickle
import random
import tempfile
import time
import traceback
import warnings

import differential
import lowtide
import torch
from differential import LENGTH, ROWS, WIDTH
from on_device import DEVICE, generator_state
from torch import nn

STEPS = 4
#: The buffers of copies to a disk take 8 MiB, so values that move there must take more.
ROWS_ON_DISK = 512 * ROWS
MAX_NORM = 0.05


class Training(nn.Module):
    """The sum of the losses of some results, or the results."""

    def __init__(self, heads, used, has_loss):
        super().__init__()
        self.heads, self.used, self.has_loss = heads, used, has_loss

    def forward(self, x):
        results = self.heads(x)
        return loss_of(results, self.used) if self.has_loss else results


def loss_of(results, used):
    return sum(results[position].float().pow(2).mean() for position in used)


@dataclasses.dataclass(frozen=True)
class Step:
    rows: int
    #: Batches whose gradients add up.
    batches: int
    #: Whether all forward passes come first, and then the backward passes, the last one first.
    waits: bool
    closure: bool
    keeps_gradients: bool
    #: What happens before: None, "evaluate", "copy", "pickle", "budget"; "between": a new budget
    #: between the forward and the backward pass.
    event: str | None
    #: Of the way from the smallest budget to twice what a step takes.
    share: float


class Case(differential.Case):
    """What is drawn in addition to the module."""

    def __init__(self, draw):
        super().__init__(draw)
        self.late_hook = False
        self.fused = draw.choice([None, None, None, None, True, lowtide.FusedUpdate(MAX_NORM)])
        self.has_loss = self.fused is not None or draw.random() < 0.6
        self.where = draw.choice(["memory", "memory", "slower", "range", "slices"])
        self.moves_state = draw.choice([None, True, False])
        self.moves_parameters = draw.random() < 0.3
        self.bandwidth = draw.choice(["200MB/s", "2GB/s,1GB/s", "50GB/s"])
        self.slices = draw.choice([2, 3, 5])
        self.stash = draw.choice(["exact", "exact", None])
        self.cuda_graph = DEVICE != "cpu" and self.where == "memory" and draw.random() < 0.3
        self.share, self.is_given_at_once = draw.random()**2, draw.random() < 0.5
        most = ROWS
        if self.where == "slower" and DEVICE == "cpu":
            most = ROWS_ON_DISK
        varies = self.where == "range" or draw.random() < 0.15
        self.most = most
        self.steps = [self._step(draw, most - draw.randint(0, 4) if varies else most)
                      for _ in range(STEPS)]
        uses = sum(step.batches > 1 or step.keeps_gradients for step in self.steps)
        self.may_share = self.half is None and uses == 0
        self.precision = (None if self.half is None or draw.random() < 0.5 else
                          {torch.bfloat16: "bf16", torch.float16: "fp16"}[self.half])

    def _step(self, draw, rows):
        batches = 1 if self.fused else draw.choice([1, 1, 2, 3])
        events = [None, None, None, "evaluate", "copy", "pickle", "budget"]
        if self.where != "range":
            events.append("between")
        return Step(rows, batches, batches > 1 and draw.random() < 0.5, draw.random() < 0.2,
                    not self.fused and draw.random() < 0.2, draw.choice(events), draw.random())

    def options(self, optimizer, folder):
        """Of wrap, but for the budget."""
        found = {"optimizer": optimizer, "time_limit": 0.3, "cache": False, "stash": self.stash,
                 "precision": self.precision, "verbose": False}
        if self.fused:
            found["fused_update"] = self.fused
        if self.cuda_graph:
            found["cuda_graph"] = True
        if self.where == "slices":
            found["slices"] = self.slices
        if self.where == "range":
            found["dynamic_shapes"] = {"x": {0: torch.export.Dim("rows", min=2, max=self.most)}}
        if self.where == "slower":
            found["offload"] = lowtide.Offload(
                folder if DEVICE == "cpu" else "host", bandwidth=self.bandwidth,
                optimizer_state=self.moves_state, parameters=self.moves_parameters)
        return found

    def autocast(self, is_wrapped):
        if self.half is None or (is_wrapped and self.precision is not None):
            return contextlib.nullcontext()
        return torch.autocast(DEVICE, self.half)


def drawn(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    case = Case(draw)
    heads = differential.module_from(draw, case, most=4 if case.most > ROWS else 6)
    return case, Training(heads, case.used, case.has_loss).to(DEVICE, case.dtype)


#: Of one element, as a type that numpy has.
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor):
    """In memory that is not PyTorch's, so that no budget counts it."""
    integers = tensor.detach().cpu().view(INTEGERS[tensor.element_size()])
    return integers.shape, integers.numpy().tobytes()


class Loop:
    """Trains; ``left`` is what that leaves behind."""

    def __init__(self, case, model, seed):
        self.case, self.model, self.doing = case, model, None
        self.optimizer = case.optimizer(model.parameters())
        self.left, self._batches = [], torch.Generator("cpu").manual_seed(seed)

    def run(self):
        for step in self.case.steps:
            self.doing = step
            self.before(step)
            if step.closure:
                self.step(lambda step=step: self._closure(step))
            else:
                self._gradients(step)
                self.step()
            if not step.keeps_gradients:
                self.optimizer.zero_grad()
        # A state that is made within the backward pass is made in its order.
        state = [value for _, values in sorted(self.optimizer.state_dict()["state"].items())
                 for value in values.values()]
        self.note([*self.model.state_dict().values(), *map(torch.as_tensor, state)])
        return [*self.left, bits(generator_state(DEVICE))]

    def note(self, tensors):
        self.left += map(bits, tensors)

    def counted(self, part):
        part()

    def before(self, step):
        if step.event == "evaluate":
            self.model.eval()
            with torch.no_grad():
                result = self.result(self.batch(step))
            self.note([result] if self.case.has_loss else result)
            self.model.train()

    def between(self, step):
        """Between a forward pass and a backward pass."""

    def step(self, closure=None):
        self.optimizer.step(closure)

    def clip(self):
        if isinstance(self.case.fused, lowtide.FusedUpdate):
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.case.fused.max_norm)

    def batch(self, step):
        return torch.randn(step.rows, LENGTH, WIDTH, dtype=self.case.dtype, device="cpu",
                           generator=self._batches).to(DEVICE)

    def result(self, x, is_wrapped=False):
        with self.case.autocast(is_wrapped):
            return self.model(x)

    def loss(self, x):
        result = self.result(x)
        return result if self.case.has_loss else loss_of(result, self.case.used)

    def _closure(self, step):
        if not step.keeps_gradients:
            self.optimizer.zero_grad()
        self._gradients(step)

    def _gradients(self, step):
        losses, noted = [], []

        def forward():
            losses.append(self.loss(self.batch(step)))
            noted.append(bits(losses[-1]))

        def backward():
            losses.pop().backward()

        for number in range(step.batches):
            self.counted(forward)
            if not step.waits:
                if number == 0:
                    self.between(step)
                self.counted(backward)
        while losses:
            if len(losses) == step.batches:
                self.between(step)
            self.counted(backward)
        self.left += noted
        self.clip()
        if not self.case.fused:
            self.left += [None if p.grad is None else bits(p.grad)
                          for p in self.model.parameters()]


class WrappedLoop(Loop):
    """The same of a wrapped model, within budgets; ``faults``: where it took more."""

    def __init__(self, case, model, seed, folder, limited=True):
        super().__init__(case, model, seed)
        self._folder, self._limited = folder, limited
        self.faults, self._smallest, self._most = [], None, None
        self.model = self._planned(case.share)

    def _planned(self, share):
        """Wrapped, within a budget: that is given at once, or set."""
        options = self.case.options(self.optimizer, self._folder)
        x = torch.zeros(self.case.most, LENGTH, WIDTH, dtype=self.case.dtype, device=DEVICE)
        with self.case.autocast(True):
            if not self._limited:
                options.pop("offload", None)
                return lowtide.wrap(self.model, x, None, **options)
            if self._smallest is None or not self.case.is_given_at_once:
                wrapped = lowtide.wrap(self.model, x, "100%", **options)
                self._most = 2 * wrapped.budget
                try:
                    wrapped.budget = 1
                except lowtide.InfeasibleError as refused:
                    self._smallest = int(1.02 * refused.smallest_budget)
                self._most = max(self._most, self._smallest)
                if not self.case.is_given_at_once:
                    wrapped.budget = self._budget(share)
                    return wrapped
            return lowtide.wrap(self.model, x, self._budget(share), when_infeasible="warn",
                                **options)

    def _budget(self, share):
        return int(self._smallest + share * (self._most - self._smallest))

    def before(self, step):
        super().before(step)
        if step.event in ("copy", "pickle"):
            state = copy.deepcopy(self.optimizer.state_dict())
            gradients = [p.grad for p in self.model.parameters()]
            self.model = (copy.deepcopy(self.model) if step.event == "copy" else
                          pickle.loads(pickle.dumps(self.model)))
            self.optimizer = self.case.optimizer(self.model.parameters())
            self.optimizer.load_state_dict(state)
            for parameter, gradient in zip(self.model.parameters(), gradients):
                parameter.grad = None if gradient is None else gradient.clone()
            self.model = self._planned(step.share)
        elif step.event == "budget":
            self._set_budget(step.share)

    def between(self, step):
        if step.event == "between":
            self._set_budget(step.share)

    def _set_budget(self, share):
        if not self._limited:
            return
        # With gradients that are kept, or passes that wait, the smallest budget is a larger one.
        with contextlib.suppress(lowtide.InfeasibleError):
            self.model.budget = self._budget(share)

    def result(self, x, is_wrapped=True):
        return super().result(x, is_wrapped)

    def clip(self):
        """The backward pass has clipped."""

    def counted(self, part):
        """Runs a part of a step; compares its peak with the budget."""
        part()
        memory = self.model.memory
        # Evaluation runs eagerly, and this program's own copies are no part of a step.
        if (not self._limited or not self.case.has_loss
                or self.doing.event in ("evaluate", "copy", "pickle")):
            return
        if memory.measured_peak - memory.outside > max(memory.budget, memory.planned_peak):
            self.faults.append(f"measured {memory.measured_peak} of {memory.budget} bytes: "
                               f"{memory} {self.doing}")


def fault(seed, folder):
    """What is not as it should be with what the seed drew; None where all is."""
    case, plain = drawn(seed)
    copied = copy.deepcopy(plain)
    told = f"seed {seed}: {case}\n{plain}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.manual_seed(seed)
            loop = WrappedLoop(case, copied, seed, folder)
            torch.manual_seed(seed)
            got = loop.run()
        except lowtide.InputError as error:
            return Refused(str(error))
        except lowtide.InfeasibleError:
            # How many passes wait together is not known before the first step.
            if case.is_given_at_once or not any(step.batches > 1 for step in case.steps):
                raise
            return Refused("passes that the budget was not known to be for")
        torch.manual_seed(seed)
        if case.where == "slices":
            eager = WrappedLoop(case, plain, seed, folder, limited=False)
            torch.manual_seed(seed)
        else:
            eager = Loop(case, plain, seed)
        expected = eager.run()
    differing = [i for i, (ours, theirs) in enumerate(zip(got, expected)) if ours != theirs]
    if len(got) != len(expected) or differing or loop.faults:
        return f"{len(got)} tensors, {len(expected)} expected, {differing} differ\n" \
               f"{loop.faults}\n{told}"
    return None


class Refused(str):
    """Options that wrap does not take together."""


def main():
    arguments = differential.begun(__doc__)
    if DEVICE == "simulated":
        from lowtide.pytorch import simulated

        simulated.install(1 << 30)
    end, seed, faults = time.monotonic() + arguments.seconds, arguments.seed, 0
    refused = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            try:
                found = fault(seed, folder)
            except Exception:
                case, model = drawn(seed)
                found = f"seed {seed}: {case}\n{model}\n{traceback.format_exc()}"
            if isinstance(found, Refused):
                refused[found] += 1
            elif found is not None:
                faults += 1
                print(found, flush=True)
            seed += 1
            torch._dynamo.reset()
            gc.collect()
    for reason, times in refused.items():
        print(f"refused {times} times: {reason}")
    print(f"{seed - arguments.seed} trainings, {sum(refused.values())} refused, {faults} faults")
    raise SystemExit(faults > 0)


if __name__ == "__main__":
    main()
