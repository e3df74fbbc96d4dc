"""The state of an optimizer lies in slower memory between steps: plain bits, in every loop."""

import copy
import functools
import io
import itertools
import pickle
import random
import warnings

import lowtide
import pytest
import torch
from lowtide.pytorch.optimizer.elementwise import _TENSORS, state_tensors, why_not_in_pieces
from on_device import DEVICE
from optimizer_state_cases import (
    MIB,
    OPTIMIZERS,
    WIDTH,
    WORDS,
    Pair,
    Words,
    away,
    bytes_of,
    equal,
    flattened,
    in_groups,
    on_cpu,
    place,
    steps,
    tokens,
    wrapped,
)
from sweep import sweep
from torch import nn, optim
from wrap_cases import built, same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

WITH_FUSED = {"sgd", "nesterov", "adam", "amsgrad", "adagrad"}
LOOPS = {"one by one": {"foreach": False}, "all at once": {"foreach": True},
         "fused": {"fused": True}}


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


def test_state_that_is_looked_at_in_inference_mode_is_updated_later(tmp_path):
    pair = Pair(tmp_path)
    pair.run()
    with torch.inference_mode():
        assert all(pair.optimizer.state[p] for p in list(pair.optimizer.state))
    pair.run(2, first=4)
    pair.require_same()


def test_a_derived_class_is_known_before_its_base_is_used(monkeypatch):
    monkeypatch.setattr(optim.RAdam, "step", getattr(optim.RAdam.step, "__wrapped__",
                                                     optim.RAdam.step))

    class Derived(optim.RAdam):
        pass

    assert why_not_in_pieces(Derived([nn.Parameter(torch.ones(1))])) == ""


def test_without_an_optimizer_a_refusal_says_nothing_of_its_state(tmp_path):
    with pytest.raises(lowtide.InfeasibleError) as caught:
        lowtide.wrap(built(Words), (tokens(0),), "1MiB", optimizer="none", time_limit=0.3,
                     offload=place(tmp_path, optimizer_state=None))
    assert "optimizer's state" not in str(caught.value)
