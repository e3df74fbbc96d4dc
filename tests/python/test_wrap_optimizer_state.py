"""The state of an optimizer lies in slower memory between steps: plain bits, within the budget."""

import contextlib
import copy
import functools
import gc
import io
import itertools
import os
import pathlib
import pickle
import random
import resource
import signal
import threading
import warnings

import lowtide
import pytest
import torch
from lowtide.pytorch.optimizer.elementwise import _TENSORS, state_tensors, why_not_in_pieces
from lowtide.pytorch.wrap import session_of
from on_device import DEVICE
from sweep import sweep
from torch import nn, optim
from torch_memory import profiled
from wrap_cases import built, same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

on_cpu = pytest.mark.cpu_only("a folder is for values of the CPU")

WORDS, WIDTH = 12_000, 64
MIB = 1 << 20

OPTIMIZERS = {
    "sgd": functools.partial(optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": functools.partial(optim.SGD, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "adam": functools.partial(optim.Adam, lr=0.01, weight_decay=0.1),
    "amsgrad": functools.partial(optim.AdamW, lr=0.01, amsgrad=True),
    "nadam": functools.partial(optim.NAdam, lr=0.01, decoupled_weight_decay=True),
    "radam": functools.partial(optim.RAdam, lr=0.01),
    "adamax": functools.partial(optim.Adamax, lr=0.01),
    "adadelta": functools.partial(optim.Adadelta, lr=0.5),
    "adagrad": functools.partial(optim.Adagrad, lr=0.1, initial_accumulator_value=0.1),
    "rmsprop": functools.partial(optim.RMSprop, lr=0.01, momentum=0.9, centered=True),
    "asgd": functools.partial(optim.ASGD, lr=0.1),
    "rprop": functools.partial(optim.Rprop, lr=0.01),
}
WITH_FUSED = {"sgd", "nesterov", "adam", "amsgrad", "adagrad"}
LOOPS = {"one by one": {"foreach": False}, "all at once": {"foreach": True},
         "fused": {"fused": True}}


class Words(nn.Module):
    """Parameters of many sizes, types and strides: a table that is larger than a piece of state, a
    number, weights with channels last, and some that only some steps use."""

    def __init__(self, words=WORDS):
        super().__init__()
        self.table = nn.Embedding(words, WIDTH)
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.LayerNorm(WIDTH))
        self.frozen = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.picture = nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.shift = nn.Parameter(torch.ones(WIDTH, dtype=torch.bfloat16))
        self.side = nn.Linear(WIDTH, 700)

    def forward(self, tokens, with_side=False):
        x = self.frozen(self.body(self.table(tokens))) * self.scale + self.shift.float()
        y = self.picture(x.view(-1, 4, 4, 4)).square().mean() + x.square().mean()
        return y + self.side(x).tanh().mean() if with_side else y


def tokens(seed, count=64):
    made = torch.randint(WORDS, (count,), generator=torch.Generator("cpu").manual_seed(seed),
                         device="cpu")
    return made.to(DEVICE)


def place(folder, **options):
    """Slower memory of the tests' device."""
    to = folder if DEVICE == "cpu" else "host"
    return lowtide.Offload(to, **{"bandwidth": "1GB/s", "optimizer_state": True, **options})


def in_groups(model, make):
    """An optimizer with two groups of parameters."""
    small = [p for p in model.parameters() if p.numel() < 1000]
    large = [p for p in model.parameters() if p.numel() >= 1000]
    return make([{"params": large}, {"params": small, "lr": 0.02}])


def wrapped(model, optimizer, folder, budget="28MiB", optimizer_state=True, **options):
    return lowtide.wrap(model, (tokens(0),), budget, optimizer=optimizer, time_limit=0.3,
                        offload=place(folder, optimizer_state=optimizer_state), **options)


def steps(model, optimizer, count=4, first=0, schedulers=(), sides=(1, 2)):
    """Of which ``sides`` use all parameters."""
    for number in range(first, first + count):
        optimizer.zero_grad()
        model(tokens(number), number in sides).backward()
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()


def flattened(value):
    """Tensors and numbers of a state dict in one order."""
    if isinstance(value, dict):
        return [part for key in sorted(value, key=str) for part in flattened(value[key])]
    if isinstance(value, (list, tuple)):
        return [part for one in value for part in flattened(one)]
    return [torch.as_tensor(value) if isinstance(value, (torch.Tensor, float, int)) else value]


def equal(one, other):
    one, other = flattened(one), flattened(other)
    return len(one) == len(other) and all(
        torch.equal(a, b) and a.dtype == b.dtype if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(one, other))


def away(optimizer):
    return len(optimizer.state.away())


class Pair:
    """A plain training and one whose state moves, from the same start."""

    def __init__(self, folder, make=OPTIMIZERS["adam"], make_model=Words):
        self.plain, model = built(make_model), built(make_model)
        self.plain_optimizer = in_groups(self.plain, make)
        self.optimizer = in_groups(model, make)
        self.model = wrapped(model, self.optimizer, folder)

    def run(self, count=4, first=0, **options):
        for model, optimizer in ((self.plain, self.plain_optimizer),
                                 (self.model, self.optimizer)):
            steps(model, optimizer, count, first, **options)

    def require_same(self):
        assert same(list(self.model.parameters()), list(self.plain.parameters()))
        assert equal(self.optimizer.state_dict(), self.plain_optimizer.state_dict())


@pytest.mark.parametrize("name, loop", sweep(
    [(name, loop) for name, loop in itertools.product(OPTIMIZERS, LOOPS)
     if loop != "fused" or name in WITH_FUSED],
    usual=[("sgd", "one by one"), ("nesterov", "fused"), ("adam", "all at once"),
           ("amsgrad", "fused"), ("adagrad", "one by one"), ("rmsprop", "all at once"),
           ("rprop", "one by one")]))
def test_every_optimizer_has_its_plain_bits(name, loop, tmp_path):
    if loop == "fused" and DEVICE != "cpu":
        pytest.skip("no fused kernels of this device")
    # PyTorch's fused SGD refuses parameters that are first used later than others, and its bits of
    # bfloat16 differ after a copy of the state.
    pair = Pair(tmp_path, functools.partial(OPTIMIZERS[name], **LOOPS[loop]),
                (lambda: Words().float()) if loop == "fused" else Words)
    pair.run(sides=() if loop == "fused" else (1, 2))
    frozen = 2 if name == "adagrad" else 0  # which makes state at once, of all parameters
    assert away(pair.optimizer) == len(pair.optimizer.state) - frozen > 5
    assert pair.model.memory.state_moved.bytes_in > 0
    pair.require_same()
    pair.run(2, first=4)
    pair.require_same()
    assert pair.model.memory.measured_peak <= pair.model.memory.budget
    assert list(tmp_path.iterdir()) == []


def drawn(choose):
    """A random model of one token, with parameters of many sizes."""
    widths = [WIDTH, *(choose.choice([3, 40, 257, 1100]) for _ in range(4))]
    layers = [layer for one, other in itertools.pairwise(widths)
              for layer in (nn.Linear(one, other), choose.choice([nn.Tanh(), nn.Identity()]))]
    return nn.Sequential(nn.Embedding(WORDS, WIDTH), *layers)


@pytest.mark.parametrize("seed", sweep(range(30), usual=range(3)))
def test_random_models_and_budgets(seed, tmp_path):
    choose = random.Random(seed)
    name, loop = choose.choice(list(OPTIMIZERS)), choose.choice(["one by one", "all at once"])
    layers, make = choose.getstate(), functools.partial(OPTIMIZERS[name], **LOOPS[loop])
    left = []
    for moves in (True, False):
        choose.setstate(layers)
        model = built(lambda: drawn(choose))
        for parameter in choose.sample(list(model.parameters()), 2):
            parameter.requires_grad_(False)
        optimizer = make(model.parameters())
        budget = int(choose.uniform(2.3, 3.5) * bytes_of(model.parameters())) + 9 * MIB
        run = wrapped(model, optimizer, tmp_path, budget) if moves else model
        for number in range(4):
            optimizer.zero_grad()
            run(tokens(number)).square().mean().backward()
            optimizer.step()
        optimizer.zero_grad()
        if moves:
            run(tokens(5))
            assert run.memory.measured_peak <= budget
            assert run.memory.state_moved.bytes_in > 0
        left.append([list(model.parameters()), optimizer.state_dict()])
    assert equal(*left)


@pytest.mark.parametrize("kind", _TENSORS, ids=lambda kind: kind.__name__)
def test_the_tensors_of_each_class_are_known(kind):
    flags = [flag for flag in ("amsgrad", "centered", "momentum") if flag in vars(kind)
             or flag in kind.__init__.__code__.co_varnames]
    for chosen in itertools.product([False, True], repeat=len(flags)):
        parameter = nn.Parameter(torch.ones(7))
        parameter.grad = torch.ones(7)
        optimizer = kind([parameter], **{flag: 0.5 * value if flag == "momentum" else value
                                         for flag, value in zip(flags, chosen)})
        optimizer.step()
        held = {name for name, value in optimizer.state[parameter].items()
                if isinstance(value, torch.Tensor) and value.shape == parameter.shape}
        assert held == set(state_tensors(optimizer, optimizer.param_groups[0]))


def bytes_of(tensors):
    return sum(tensor.nbytes for tensor in tensors)


def held_bytes(model):
    return sum(executor.held_bytes for region in session_of(model).regions
               for executor in region.executors)


def test_a_step_stays_within_a_budget_that_the_state_alone_exceeds(tmp_path):
    model, plain = built(lambda: Words(64_000)), built(lambda: Words(64_000))
    make = OPTIMIZERS["amsgrad"]
    optimizer, plain_optimizer = make(model.parameters()), make(plain.parameters())
    budget = 46 * MIB
    assert 3 * bytes_of(p for p in model.parameters() if p.requires_grad) > budget
    with pytest.raises(lowtide.InfeasibleError):
        lowtide.wrap(model, (tokens(0),), budget, optimizer=optimizer, time_limit=0.3,
                     offload=place(tmp_path, optimizer_state=False))
    model = lowtide.wrap(model, (tokens(0),), budget, optimizer=optimizer, time_limit=0.3,
                         offload=place(tmp_path, optimizer_state=None))
    steps(plain, plain_optimizer, 6)
    steps(model, optimizer, 4)

    def step():
        steps(model, optimizer, 1, first=4)

    optimizer.zero_grad()
    existing = bytes_of(model.parameters()) + held_bytes(model)
    assert existing + profiled(step)[0] <= budget
    steps(model, optimizer, 1, first=5)
    assert model.memory.measured_peak <= budget == model.memory.budget
    assert model.memory.planned_peak <= budget
    assert same(list(model.parameters()), list(plain.parameters()))
    assert equal(optimizer.state_dict(), plain_optimizer.state_dict())


def test_state_stays_where_all_fits(tmp_path):
    model = built(Words)
    optimizer = in_groups(model, OPTIMIZERS["adam"])
    model = lowtide.wrap(model, (tokens(0),), "1GiB", optimizer=optimizer, time_limit=0.3,
                         offload=place(tmp_path, optimizer_state=None))
    steps(model, optimizer)
    assert type(optimizer.state) is type(optim.SGD([nn.Parameter(torch.ones(1))], 0.1).state)
    assert model.memory.state_bytes == 0


def test_a_share_is_one_of_a_step_with_the_state(tmp_path):
    def budget(**options):
        model = built(lambda: Words(40_000))
        optimizer = optim.Adam(model.parameters())
        return lowtide.wrap(model, (tokens(0, 16_384),), "90%", optimizer=optimizer,
                            time_limit=0.3, **options).memory.budget

    assert budget(offload=place(tmp_path)) == budget()


def test_the_smallest_budget_that_an_error_names_does(tmp_path):
    model = built(Words)
    optimizer = in_groups(model, OPTIMIZERS["adam"])
    with pytest.raises(lowtide.InfeasibleError) as error:
        wrapped(model, optimizer, tmp_path, 2 * MIB)
    smallest = error.value.smallest_budget
    assert type(optimizer.state) is not type(wrapped(model, optimizer, tmp_path, smallest))
    steps(model, optimizer)
    assert smallest < 4 * bytes_of(model.parameters()) + 8 * MIB


def test_what_moved_is_said(tmp_path):
    pair = Pair(tmp_path)
    pair.run()
    memory = pair.model.memory
    state = 2 * bytes_of(p for p in pair.model.parameters() if p.requires_grad)
    assert state <= memory.state_bytes <= 1.1 * state
    assert 0 < memory.state_moved.bytes_in <= memory.state_moved.bytes_out <= memory.state_bytes
    text = lowtide.explain(pair.model)
    assert "of optimizer state in slower memory" in text and str(memory.state_moved) in text


# ---- The user's own loop


def one_cycle(optimizer):
    return optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)


@pytest.mark.parametrize("name", ["sgd", "adam"])
@pytest.mark.parametrize("scheduled_first", [True, False])
def test_schedulers_made_before_and_after(name, scheduled_first, tmp_path):
    def train(moves):
        model = built(Words)
        optimizer = in_groups(model, OPTIMIZERS[name])
        schedulers = [one_cycle(optimizer)] if scheduled_first else []
        run = wrapped(model, optimizer, tmp_path) if moves else model
        schedulers = schedulers or [one_cycle(optimizer)]
        steps(run, optimizer, schedulers=schedulers)
        return [*model.parameters(), *flattened(optimizer.state_dict()["state"])], optimizer

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got, optimizer = train(True)
    assert away(optimizer) > 5
    assert same(got, train(False)[0])


def test_a_closure_and_hooks_run_once(tmp_path):
    def train(moves):
        model, seen = built(Words), []
        optimizer = in_groups(model, OPTIMIZERS["adam"])
        run = wrapped(model, optimizer, tmp_path) if moves else model
        optimizer.register_step_pre_hook(lambda *of: seen.append("before"))
        optimizer.register_step_post_hook(
            lambda stepped, *of: seen.append(len(stepped.param_groups[0]["params"])))
        for number in range(3):
            def closure(number=number):
                seen.append(f"closure {torch.is_grad_enabled()}")
                optimizer.zero_grad()
                loss = run(tokens(number))
                loss.backward()
                return loss

            seen.append(optimizer.step(closure).item())
        return seen, list(model.parameters())

    (seen, left), (expected, others) = train(True), train(False)
    assert seen == expected and same(left, others)


def test_a_first_plan_within_a_closure(tmp_path):
    """As Lightning has it."""
    model, plain = built(Words), built(Words)
    optimizers = [in_groups(m, OPTIMIZERS["adam"]) for m in (model, plain)]
    run = lowtide.wrap(model, None, "28MiB", optimizer=optimizers[0], time_limit=0.3,
                       offload=place(tmp_path))
    for number in range(2):
        for called, optimizer in zip((run, plain), optimizers):
            def closure(called=called, optimizer=optimizer, number=number):
                optimizer.zero_grad()
                loss = called(tokens(number))
                loss.backward()
                return loss

            optimizer.step(closure)
        assert away(optimizers[0]) > 5
    assert same(list(model.parameters()), list(plain.parameters()))


@on_cpu
def test_accelerate_may_take_it_afterwards(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    pair = Pair(tmp_path)
    steps(pair.plain, pair.plain_optimizer)
    accelerator = accelerate.Accelerator(cpu=True)
    optimizer, scheduler = accelerator.prepare(
        pair.optimizer, optim.lr_scheduler.LambdaLR(pair.optimizer, lambda _: 1.0))
    for number in range(4):
        optimizer.zero_grad()
        accelerator.backward(pair.model(tokens(number), number in (1, 2)))
        optimizer.step()
        scheduler.step()
    assert away(pair.optimizer) == len(pair.optimizer.state)
    assert same(list(pair.model.parameters()), list(pair.plain.parameters()))
    assert equal(optimizer.state_dict()["state"], pair.plain_optimizer.state_dict()["state"])


@on_cpu
def test_the_backend_of_torch_compile_takes_it_too(tmp_path):
    model, plain = built(Words), built(Words)
    optimizer, plain_optimizer = (in_groups(m, OPTIMIZERS["adam"]) for m in (model, plain))
    compiled = torch.compile(model, backend="lowtide",
                             options={"budget": "28MiB", "optimizer": optimizer,
                                      "time_limit": 0.3, "offload": place(tmp_path)})
    steps(compiled, optimizer)
    steps(plain, plain_optimizer)
    assert away(optimizer) == len(optimizer.state)
    assert same(list(model.parameters()), list(plain.parameters()))


@pytest.mark.parametrize("loop", ["one by one", "fused"])
def test_a_scaler_skips_and_scales(loop, tmp_path):
    if loop == "fused" and DEVICE != "cpu":
        pytest.skip("no fused kernels of this device")
    pair = Pair(tmp_path, functools.partial(OPTIMIZERS["adam"], **LOOPS[loop]))
    scalers = [torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2) for _ in range(2)]
    if DEVICE != "cpu":
        pytest.skip("its scaler is the device's own")
    for number in range(5):
        for model, optimizer, scaler in ((pair.plain, pair.plain_optimizer, scalers[0]),
                                         (pair.model, pair.optimizer, scalers[1])):
            optimizer.zero_grad()
            scaler.scale(model(tokens(number))).backward()
            if number == 2:
                model.table.weight.grad[0, 0] = torch.inf
            if loop != "fused":
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            scaler.step(optimizer)
            scaler.update()
    assert scalers[0].get_scale() == scalers[1].get_scale()
    pair.require_same()


def test_new_groups_and_options_get_room(tmp_path):
    def make(groups):
        return optim.SGD([groups[0], {**groups[1], "momentum": 0.9}], 0.1)

    pair = Pair(tmp_path, make)
    for model, optimizer in ((pair.plain, pair.plain_optimizer), (pair.model, pair.optimizer)):
        steps(model, optimizer, 1)
        optimizer.param_groups[0]["momentum"] = 0.9
        steps(model, optimizer, 2)
        model.frozen.requires_grad_()
        model.later = nn.Parameter(torch.ones(5))
        model.later.grad = torch.ones(5)
        optimizer.add_param_group({"params": [model.later], "momentum": 0.5})
        steps(model, optimizer, 2)
        optimizer.param_groups[1]["momentum"] = 0.0
        steps(model, optimizer, 2)
    pair.require_same()


# ---- State that is looked at


def test_checkpoints_go_both_ways(tmp_path):
    pair = Pair(tmp_path)
    pair.run()
    saved, expected = pair.optimizer.state_dict(), pair.plain_optimizer.state_dict()
    assert away(pair.optimizer) == len(pair.optimizer.state)  # it holds none of it afterwards
    file = io.BytesIO()
    torch.save(saved, file)
    before = copy.deepcopy(expected)
    pair.run(2, first=4)
    assert equal(saved, before)  # later steps change nothing in it
    file.seek(0)
    loaded = torch.load(file)
    for optimizer, state in ((pair.plain_optimizer, before), (pair.optimizer, loaded)):
        optimizer.load_state_dict(state)
    assert away(pair.optimizer) == len(pair.optimizer.state)
    pair.run(2, first=6)
    pair.require_same()


def test_state_from_before_moves_and_comes_back(tmp_path):
    model, plain = built(Words), built(Words)
    optimizer, plain_optimizer = (in_groups(m, OPTIMIZERS["amsgrad"]) for m in (model, plain))
    steps(plain, plain_optimizer, 9)
    steps(model, optimizer, 3)
    run = wrapped(model, optimizer, tmp_path)
    assert away(optimizer) == len(optimizer.state)
    steps(run, optimizer, 2, first=3)
    run = wrapped(run, optimizer, tmp_path)
    assert away(optimizer) == len(optimizer.state)
    steps(run, optimizer, 2, first=5)
    del run
    steps(model, optimizer, 2, first=7)  # without a plan
    assert away(optimizer) < len(optimizer.state)
    assert same(list(model.parameters()), list(plain.parameters()))
    assert equal(optimizer.state_dict(), plain_optimizer.state_dict())


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))],
                         ids=["deepcopy", "pickle"])
def test_a_copy_is_plain(duplicate, tmp_path):
    pair = Pair(tmp_path)
    pair.run()
    model, optimizer = duplicate((pair.model, pair.optimizer))
    assert away(pair.optimizer) == len(pair.optimizer.state)
    steps(pair.plain, pair.plain_optimizer, 2, first=4)
    steps(model, optimizer, 2, first=4)
    assert same(list(model.parameters()), list(pair.plain.parameters()))
    assert equal(optimizer.state_dict(), pair.plain_optimizer.state_dict())


def test_what_is_changed_by_hand_counts(tmp_path):
    pair = Pair(tmp_path)
    pair.run()
    for optimizer in (pair.plain_optimizer, pair.optimizer):
        for number, (parameter, state) in enumerate(optimizer.state.items()):
            if number % 2:
                state["exp_avg"].mul_(0.5)
                state["step"] += 3
            elif number == 2:
                optimizer.state[parameter] = {}
        optimizer.state.pop(optimizer.param_groups[1]["params"][0], None)
    pair.run(3, first=4, sides=(5,))
    assert away(pair.optimizer) == len(pair.optimizer.state)
    pair.require_same()


def transposed(model):
    weight = model.table.weight
    weight.data = weight.data.t().contiguous().t()


@pytest.mark.parametrize("exchange", [
    lambda model: model.to(memory_format=torch.channels_last),
    lambda model: model.to(memory_format=torch.contiguous_format), transposed],
    ids=["channels last", "contiguous", "transposed"])
def test_parameters_may_get_other_strides(exchange, tmp_path):
    pair = Pair(tmp_path)
    pair.run()
    exchange(pair.plain), exchange(pair.model)
    pair.require_same()
    pair.run(2, first=4, sides=())
    exchange(pair.plain), exchange(pair.model)
    pair.require_same()
    pair.run(2, first=6, sides=(6,))
    pair.require_same()
    assert away(pair.optimizer) > 5


def test_parameters_may_get_another_type_and_size(tmp_path):
    pair = Pair(tmp_path, make_model=lambda: Words().float())
    pair.run()
    for model in (pair.plain, pair.model):
        model.double()  # as for a checkpoint
    pair.require_same()
    for model, optimizer in ((pair.plain, pair.plain_optimizer), (pair.model, pair.optimizer)):
        model.float()
        table = model.table.weight
        table.data = torch.cat([table.data, torch.ones(500, WIDTH)])
        for name in ("exp_avg", "exp_avg_sq"):
            grown = torch.cat([optimizer.state[table][name], torch.zeros(500, WIDTH)])
            optimizer.state[table][name] = grown
    pair.run(2, first=4, sides=())
    pair.require_same()


def test_the_state_is_a_mapping_as_pytorchs_is(tmp_path):
    pair = Pair(tmp_path)
    pair.run()
    state, parameter = pair.optimizer.state, pair.model.table.weight
    other = nn.Parameter(torch.ones(1))
    assert len(state) == len(pair.plain_optimizer.state) == len(list(state))
    assert parameter in state and other not in state
    assert state.get(other) is None and state.pop(other, 5) == 5
    with pytest.raises(KeyError):
        state.pop(other)
    assert state[other] == {} and other in state
    del state[other]
    assert state.get(parameter)["exp_avg"].shape == parameter.shape
    assert state[parameter] is state[parameter]
    assert "away" in repr(state)


# ---- What is refused, and faults


class Own(optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self, closure=None):
        pass


@pytest.mark.parametrize("make, why", [
    (optim.Adafactor, "Adafactor is not known to treat each element"),
    (Own, "Own is not known"), (lambda p: "adam", "itself was not given"),
    (lambda p: optim.SGD(p, 0.1), "holds no tensors"),
    (lambda p: optim.Adam(p, differentiable=True), "differentiable=True"),
])
def test_others_keep_their_state_in_memory(make, why, tmp_path):
    model = built(Words)
    optimizer = make([p for p in model.parameters()])
    with pytest.raises(lowtide.InputError, match=why):
        wrapped(model, optimizer, tmp_path)
    with pytest.raises(lowtide.InfeasibleError, match=why):
        wrapped(model, optimizer, tmp_path, "1MiB", optimizer_state=None)
    lowtide.wrap(model, (tokens(0),), "1GiB", optimizer=optimizer, time_limit=0.3,
                 offload=place(tmp_path, optimizer_state=None))
    assert optimizer == "adam" or type(optimizer.state).__name__ == "defaultdict"


def test_the_limit_holds_for_the_state(tmp_path):
    model = built(Words)
    optimizer = in_groups(model, OPTIMIZERS["adam"])
    with pytest.raises(lowtide.InputError, match="optimizer's state takes .* allows 1.00 MiB"):
        wrapped(model, optimizer, tmp_path, offload_budget="1MiB")
    with pytest.raises(lowtide.InputError, match="optimizer_state must be True, False or None"):
        place(tmp_path, optimizer_state="yes")


def test_the_limit_holds_however_often_the_state_comes_back(tmp_path):
    model, plain = built(Words), built(Words)
    optimizers = [in_groups(m, OPTIMIZERS["adam"]) for m in (model, plain)]
    state = 2 * bytes_of(p for p in model.parameters() if p.requires_grad)
    least = 4 * MIB + bytes_of(model.parameters()) * 2 + (8 * MIB if DEVICE == "cpu" else 0)
    model = wrapped(model, optimizers[0], tmp_path, least, None, offload_budget=int(1.2 * state))
    moved = []
    for number in range(5):
        model.budget = least if number % 2 == 0 else 100 * MIB
        for called, optimizer in zip((model, plain), optimizers):
            steps(called, optimizer, 1, first=number)
        moved.append(model.memory.state_bytes > 0)
        assert moved[-1] or type(optimizers[0].state) is type(optimizers[1].state)
        assert len(list(files_in(tmp_path))) == (moved[-1] and DEVICE == "cpu")
    assert moved == [True, False, True, False, True]
    assert same(list(model.parameters()), list(plain.parameters()))
    assert equal(*(optimizer.state_dict() for optimizer in optimizers))


def test_pieces_get_smaller_with_the_budget(tmp_path):
    model, plain = built(lambda: Words(64_000)), built(lambda: Words(64_000))
    optimizers = [in_groups(m, OPTIMIZERS["adam"]) for m in (model, plain)]
    steps(plain, optimizers[1], 5)
    state = 2 * bytes_of(p for p in model.parameters() if p.requires_grad)
    model = wrapped(model, optimizers[0], tmp_path, "400MiB", offload_budget=int(1.1 * state))
    steps(model, optimizers[0], 2)
    with pytest.raises(lowtide.InfeasibleError) as error:
        model.budget = "1MiB"
    before = model.memory.measured_peak
    model.budget = least = int(1.02 * error.value.smallest_budget)
    optimizers[0].zero_grad()
    steps(model, optimizers[0], 3, first=2)
    optimizers[0].zero_grad()
    model(tokens(5))
    assert model.memory.measured_peak <= least < before
    assert same(list(model.parameters()), list(plain.parameters()))
    assert equal(*(optimizer.state_dict() for optimizer in optimizers))


@pytest.mark.parametrize("more", [1, 1.005, 1.02])
def test_a_step_that_takes_more_than_the_smallest_budget_says_so(more, tmp_path):
    model = built(Words)
    optimizer = OPTIMIZERS["amsgrad"](model.parameters(), foreach=True)
    with pytest.raises(lowtide.InfeasibleError) as error:
        wrapped(model, optimizer, tmp_path, 2 * MIB)
    budget = int(more * error.value.smallest_budget)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = wrapped(model, optimizer, tmp_path, budget)
        steps(model, optimizer, 3)
        optimizer.zero_grad()
        model(tokens(3))
    assert (model.memory.measured_peak <= budget
            or any("optimizer's own step" in str(warning.message) for warning in said))


def test_state_that_is_looked_at_in_inference_mode_is_updated_later(tmp_path):
    pair = Pair(tmp_path)
    pair.run()
    with torch.inference_mode():
        assert all(pair.optimizer.state[p] for p in list(pair.optimizer.state))
    pair.run(2, first=4)
    pair.require_same()


@on_cpu
def test_a_full_disk_is_an_error_before_the_first_step(tmp_path):
    model = built(Words)
    optimizer = in_groups(model, OPTIMIZERS["adam"])
    wrapped(model, optimizer, tmp_path)  # measures ops
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(lowtide.Error, match=f"cannot reserve .* in the folder {tmp_path}"):
            wrapped(model, optimizer, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    steps(model, optimizer, 2)  # as before


def files_in(folder):
    """Descriptors of this process of files without a name there."""
    for link in pathlib.Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.readlink(link).startswith(f"{folder}/"):
                yield int(link.name)


@on_cpu
def test_a_failing_disk_is_an_error_until_a_checkpoint_is_loaded(tmp_path):
    pair = Pair(tmp_path)
    pair.run()
    saved = copy.deepcopy(pair.optimizer.state_dict())
    parameters = [p.detach().clone() for p in pair.model.parameters()]
    for file in files_in(tmp_path):
        os.ftruncate(file, 0)
    pair.model(tokens(4)).backward()
    with pytest.raises(lowtide.Error, match=f"piece 1 of the optimizer's state.*{tmp_path}"):
        pair.optimizer.step()
    with pytest.raises(lowtide.Error, match="optimizer's state"):
        pair.optimizer.state_dict()
    with torch.no_grad():
        for parameter, before in zip(pair.model.parameters(), parameters):
            parameter.copy_(before)
    pair.optimizer.load_state_dict(saved)
    pair.run(2, first=4)
    pair.require_same()


@on_cpu
def test_state_that_cannot_be_written_stays_in_memory(tmp_path):
    plain, model = built(Words), built(Words)
    plain_optimizer, optimizer = (in_groups(m, OPTIMIZERS["adam"]) for m in (plain, model))
    model = wrapped(model, optimizer, tmp_path, "200MiB")  # in one piece
    steps(plain, plain_optimizer, 7)
    steps(model, optimizer, 4)
    optimizer.zero_grad()
    model(tokens(4)).backward()
    [file] = files_in(tmp_path)
    kept, unwritable = os.dup(file), os.open(f"/proc/self/fd/{file}", os.O_RDONLY)
    os.dup2(unwritable, file)
    with pytest.raises(lowtide.Error, match=f"piece 1 of the optimizer's state.*{tmp_path}"):
        optimizer.step()
    os.dup2(kept, file)
    os.close(kept)
    os.close(unwritable)
    assert away(optimizer) == 0  # nor what had no gradient, as it lay in the same piece
    steps(model, optimizer, 2, first=5)
    assert same(list(model.parameters()), list(plain.parameters()))
    assert equal(optimizer.state_dict(), plain_optimizer.state_dict())


def test_a_derived_class_is_known_before_its_base_is_used(monkeypatch):
    monkeypatch.setattr(optim.RAdam, "step", getattr(optim.RAdam.step, "__wrapped__",
                                                     optim.RAdam.step))

    class Derived(optim.RAdam):
        pass

    assert why_not_in_pieces(Derived([nn.Parameter(torch.ones(1))])) == ""


@on_cpu
def test_a_forked_process_is_told_that_it_cannot_have_the_state(tmp_path):
    pair = Pair(tmp_path)
    pair.run()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends it
        try:
            pair.optimizer.state_dict()
        except lowtide.Error as error:
            if "before the fork" in str(error):
                pair.model = pair.optimizer = None
                gc.collect()  # the stores too
                os._exit(3)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    pair.run(2, first=4)
    pair.require_same()


def test_a_step_that_fails_within_a_parameter_that_is_cut_is_no_wrong_number(tmp_path, monkeypatch):
    pair = Pair(tmp_path)
    pair.run()
    kind, calls = type(pair.optimizer), []
    plain = kind.step.__wrapped__

    def failing(self, closure=None):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("no more memory")
        return plain(self, closure)

    pair.model(tokens(4)).backward()
    with monkeypatch.context() as patch:
        patch.setattr(kind.step, "__wrapped__", failing)
        with pytest.raises(RuntimeError, match="no more memory"):
            pair.optimizer.step()
    for look in (pair.optimizer.step, pair.optimizer.state_dict,
                 lambda: pair.optimizer.state[pair.model.table.weight]):
        with pytest.raises(lowtide.Error, match="half way: load a checkpoint"):
            look()
    assert pair.optimizer.state[pair.model.scale]["step"] == 4


def test_ctrl_c_leaves_each_parameter_as_before_or_after(tmp_path):
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("Ctrl-C is the main thread's")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    choose = random.Random(1)
    pair = Pair(tmp_path)
    pair.run()
    reached = [pair.plain_optimizer.state_dict(), None]
    reached[0] = copy.deepcopy([list(pair.plain.parameters()), reached[0]["state"]])
    steps(pair.plain, pair.plain_optimizer, 1, first=4)
    reached[1] = copy.deepcopy([list(pair.plain.parameters()),
                                pair.plain_optimizer.state_dict()["state"]])
    saved = copy.deepcopy(pair.optimizer.state_dict())
    try:
        for _ in range(12):
            with torch.no_grad():
                for parameter, value in zip(pair.model.parameters(), reached[0][0]):
                    parameter.copy_(value)
            pair.optimizer.load_state_dict(saved)
            pair.optimizer.zero_grad()
            pair.model(tokens(4)).backward()
            timer = threading.Timer(choose.uniform(0, 0.01),
                                    lambda: os.kill(os.getpid(), signal.SIGINT))
            with contextlib.suppress(KeyboardInterrupt):
                timer.start()
                pair.optimizer.step()
                timer.join()
                signal.sigpending()
            state = pair.optimizer.state_dict()["state"]
            named = {id(p): number for number, p in enumerate(
                p for group in pair.optimizer.param_groups for p in group["params"])}
            for number, parameter in enumerate(pair.model.parameters()):
                place_in_state = named[id(parameter)]
                matches = [equal([parameter], [values[number]])
                           and equal(state.get(place_in_state, {}), of.get(place_in_state, {}))
                           for values, of in reached]
                assert any(matches), number
    finally:
        signal.signal(signal.SIGINT, before)
