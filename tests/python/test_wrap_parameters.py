"""Parameters that lie in slower memory while a pass runs: eager bits, within budgets that hold them
no other way, and what looks at them meanwhile never sees other numbers."""

import copy
import io
import os
import pickle
import random

import lowtide
import pytest
import torch
from on_device import DEVICE, seeded
from sweep import sweep
from test_wrap_offload import files_in
from torch import nn
from wrap_cases import built, loss_of, same, train

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")
on_cpu = pytest.mark.cpu_only("budgets that count buffers for copies, as on the CPU")

ROWS, WIDTH = 1024, 2048
MIB = 1 << 20
LAYERS = 6
#: Four times as large as a parameter, which has 8 MiB, and cheap to compute with.
X = torch.randn(4, ROWS, WIDTH, device=DEVICE, generator=seeded(5))
#: Of Scales, with the next batch: too small for it where its parameters do not move.
TIGHT = (208 if DEVICE == "cpu" else 200) * MIB  # copies to a disk have buffers of 8


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(1 + torch.randn(ROWS, WIDTH) / 10)

    def forward(self, x):
        return x * self.weight


class Scales(nn.Module):
    """Layers with a parameter as large as what they return."""

    def __init__(self, names=LAYERS * ("scale", "tanh")):
        super().__init__()
        layers = {"scale": Scale, "tanh": nn.Tanh, "dropout": lambda: nn.Dropout(0.2)}
        self.layers = nn.Sequential(*(layers[name]() for name in names))

    def forward(self, x):
        return self.layers(x).square().mean()


def inputs():
    return (X,)


def place(folder):
    return folder if DEVICE == "cpu" else "host"


def wrapped(folder, budget, make=Scales, *, parameters=True, **options):
    offload = lowtide.Offload(place(folder), bandwidth="2GB/s", latency=50, parameters=parameters)
    options = {"optimizer": "none", "batches_ahead": 1, "time_limit": 0.5, **options}
    return lowtide.wrap(built(make), inputs(), budget, offload=offload, **options)


def is_away(parameter):
    try:
        parameter.detach().sum()
    except RuntimeError as error:
        assert "lies in slower memory" in str(error)
        return True
    return False


def test_a_model_trains_within_a_budget_that_only_moved_parameters_fit(tmp_path):
    with pytest.raises(lowtide.InfeasibleError):
        wrapped(tmp_path, TIGHT, parameters=False)
    model = wrapped(tmp_path, TIGHT)
    assert same(train(model, inputs, steps=2), train(built(Scales), inputs, steps=2))
    memory = model.memory
    assert memory.measured_peak <= memory.budget
    assert memory.planned_peak <= memory.budget
    assert memory.moved.bytes_out > 0 and memory.moved.bytes_in > memory.moved.bytes_out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", sweep(range(8), usual=[]))
def test_random_models_and_budgets_give_eager_bits(seed, tmp_path):
    choose = random.Random(seed)
    names = ["scale", *(choose.choice(["scale", "tanh", "dropout", "scale"]) for _ in range(8))]

    def make():
        return Scales(names)

    with pytest.raises(lowtide.InfeasibleError) as error:
        wrapped(tmp_path, 4 * MIB, make)
    expected = train(built(make), inputs, steps=2)
    for factor in (1, choose.uniform(1, 1.6)):
        model = wrapped(tmp_path, int(factor * error.value.smallest_budget), make)
        assert same(train(model, inputs, steps=2), expected)
        assert model.memory.measured_peak <= model.memory.budget


def test_each_of_several_budgets_is_kept(tmp_path):
    """Also by plans that were made for a larger one: parameters come back beside what is kept."""
    for budget in (TIGHT + 24 * MIB, TIGHT + 12 * MIB, TIGHT):
        model = wrapped(tmp_path, budget)
        train(model, inputs, steps=2)
        assert model.memory.measured_peak <= budget


USES = {
    "a sum": lambda model: model.layers[0].weight.sum().item(),
    "a repr": lambda model: repr(model.layers[0].weight),
    "a view that was made before": lambda model: model.before.sum().item(),
    "a list": lambda model: model.layers[0].weight[:1, :1].tolist(),
    "numpy": lambda model: model.layers[0].weight.detach().cpu().numpy().sum(),
    "a copy": lambda model: copy.deepcopy(model.layers[0].weight),
    "a checkpoint": lambda model: torch.save(model.state_dict(), io.BytesIO()),
    "pickle": lambda model: pickle.dumps(model.layers[0].weight),
    "an update": lambda model: model.layers[0].weight.detach().add_(1),
    "another content": lambda model: model.layers[0].weight.detach().copy_(torch.zeros(())),
    "init": lambda model: nn.init.zeros_(model.layers[0].weight),
    "clipping": lambda model: model.layers[0].weight.detach().clamp_(-1, 1),
    "an average": lambda model: torch.lerp(X, model.layers[0].weight.detach(), 0.5),
    "a norm": lambda model: torch._foreach_norm([model.layers[0].weight.detach()])[0].item(),
    "the pointer": lambda model: model.layers[0].weight.data_ptr(),
}


def test_every_use_between_the_halves_of_a_pass_is_an_error(tmp_path):
    model, eager = wrapped(tmp_path, TIGHT), built(Scales)
    before = model.layers[0].weight.detach().view(-1)[5:]
    model.before = before
    loss = loss_of(model(X))
    assert is_away(model.layers[0].weight)
    for what, use in USES.items():
        with pytest.raises(RuntimeError, match="layers.0.weight.*lies in slower memory.*del loss"):
            use(model)
            pytest.fail(what)
    loss.backward()
    loss_of(eager(X)).backward()
    for one, other in zip(model.parameters(), eager.parameters()):
        assert torch.equal(one, other) and torch.equal(one.grad, other.grad)
    assert before.data_ptr() == model.layers[0].weight.view(-1)[5:].data_ptr()


def test_shape_and_place_of_a_parameter_can_always_be_asked_for(tmp_path):
    model = wrapped(tmp_path, TIGHT)
    loss = loss_of(model(X))
    weight = model.layers[0].weight
    assert (weight.shape, weight.device.type, weight.nbytes) == ((ROWS, WIDTH), DEVICE, 8 * MIB)
    assert weight.requires_grad and weight.grad is None
    loss.backward()


def test_changes_between_steps_are_those_of_eager_training(tmp_path):
    """Updates in place, by ``.data``, by ``load_state_dict``, by another optimizer."""
    def trained(model):
        torch.manual_seed(1)
        optimizers = [torch.optim.SGD(model.parameters(), 0.1),
                      torch.optim.SGD(list(model.parameters())[:1], 0.2, momentum=0.5)]
        average = [parameter.detach().clone() for parameter in model.parameters()]
        kept = copy.deepcopy(model.state_dict())
        for step in range(3):
            loss_of(model(X)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            for optimizer in optimizers:
                optimizer.step()
            model.zero_grad()
            with torch.no_grad():
                model.layers[0].weight.clamp_(0.8, 1.2)
                torch._foreach_lerp_(average, list(model.parameters()), 0.3)
            if step == 1:
                first = model.layers[2].weight
                first.data = first.data * 2
            if step == 2:
                model.load_state_dict(kept)
        return [*average, *(parameter.detach() for parameter in model.parameters())]

    assert same(trained(wrapped(tmp_path, TIGHT)), trained(built(Scales)))


def test_a_pass_without_a_backward_pass_brings_parameters_back_when_it_is_dropped(tmp_path):
    model = wrapped(tmp_path, TIGHT)
    loss = model(X)
    assert is_away(model.layers[0].weight)
    del loss
    assert same(list(model.state_dict().values()), list(built(Scales).state_dict().values()))
    assert same(train(model, inputs, steps=2), train(built(Scales), inputs, steps=2))


def test_an_evaluation_between_the_halves_has_the_right_numbers(tmp_path):
    def evaluated(model):
        loss = model(X)
        with torch.no_grad():
            found = model(2 * X)
        loss.backward()
        return [found, *(parameter.grad for parameter in model.parameters())]

    assert same(evaluated(wrapped(tmp_path, TIGHT)), evaluated(built(Scales)))


def test_passes_at_once_and_retained_graphs(tmp_path):
    def accumulated(model):
        torch.manual_seed(4)
        losses = [model(X), model(X * 2)]
        losses[1].backward(retain_graph=True)
        losses[0].backward()
        losses[1].backward()
        model(X).backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    model = wrapped(tmp_path, TIGHT, when_infeasible="warn")
    assert same(accumulated(model), accumulated(built(Scales)))
    assert not any(is_away(parameter) for parameter in model.parameters())


@on_cpu
def test_a_parameter_whose_memory_others_share_is_refused(tmp_path):
    model = wrapped(tmp_path, TIGHT)
    shared = model.layers[0].weight.detach().numpy()
    with pytest.raises(lowtide.InputError, match="layers.0.weight.*NumPy.*copy it"):
        model(X)
    assert not any(is_away(parameter) for parameter in model.parameters())
    weight = model.layers[0].weight
    weight.data = weight.data.clone()
    assert same(train(model, inputs, steps=2), train(built(Scales), inputs, steps=2))
    assert shared.shape == (ROWS, WIDTH)


class Shared(nn.Module):
    """Two parameters in one storage, or one in a part of it; ``tied``: one parameter by two names,
    which is none of these."""

    def __init__(self, how):
        super().__init__()
        memory = torch.randn(2 * WIDTH, 8)
        self.first = nn.Parameter(memory[:WIDTH].clone())
        if how == "halves":
            self.first = nn.Parameter(memory[:WIDTH])
            self.second = nn.Parameter(memory[WIDTH:])
        elif how == "whole":
            self.second = nn.Parameter(self.first.data)
        elif how == "transposed":
            self.second = nn.Parameter(self.first.data.t())
        elif how == "part":
            self.second = nn.Parameter(memory[WIDTH:])
        elif how == "tied":
            self.second = self.first

    def forward(self, x):
        return (x[0] @ self.first).square().mean() + self.second.square().mean()


@pytest.mark.parametrize("how, why", [
    ("halves", "\"first\" lies in a part of"),
    ("whole", "\"second\" lies in the memory of \"first\""),
    ("transposed", "\"second\" lies in the memory of \"first\""),
    ("part", "\"second\" lies in a part of")])
def test_parameters_in_one_storage_are_refused_before_a_step(how, why, tmp_path):
    with pytest.raises(lowtide.InputError, match=why):
        wrapped(tmp_path, TIGHT, lambda: Shared(how))
    wrapped(tmp_path, TIGHT, lambda: Shared(how), parameters=False)
    wrapped(tmp_path, TIGHT, lambda: Shared("tied"))


@on_cpu
def test_a_copy_that_fails_is_an_error_and_never_other_numbers(tmp_path):
    model = wrapped(tmp_path, TIGHT)
    loss = model(X)
    for file in files_in(tmp_path):
        os.ftruncate(file, 0)
    with pytest.raises(lowtide.Error, match=f"file of values in {tmp_path}"):
        loss.backward()
    for parameter in model.parameters():
        try:
            value = parameter.detach().clone()
        except RuntimeError as error:
            assert f"file of values in {tmp_path}" in str(error)
        else:
            assert value.isfinite().all()


def test_the_state_of_an_optimizer_moves_too(tmp_path):
    def trained(model, optimizer):
        for _ in range(3):
            model(X).backward()
            optimizer.step()
            optimizer.zero_grad()
        return [parameter.detach().clone() for parameter in model.parameters()]

    plain = built(Scales)
    expected = trained(plain, torch.optim.AdamW(plain.parameters()))
    module = built(Scales)
    optimizer = torch.optim.AdamW(module.parameters())
    offload = lowtide.Offload(place(tmp_path), bandwidth="2GB/s", parameters=True,
                              optimizer_state=True)
    model = lowtide.wrap(module, inputs(), 190 * MIB, optimizer=optimizer, offload=offload,
                         time_limit=0.5)
    assert same(trained(model, optimizer), expected)
    assert model.memory.state_bytes > 0
    assert model.memory.measured_peak <= model.memory.budget


def test_the_budget_decides_what_moves(tmp_path):
    model = wrapped(tmp_path, "1GiB")
    expected = train(built(Scales), inputs, steps=2)
    for budget, moves in [("1GiB", False), (TIGHT, True), ("1GiB", False)]:
        lowtide.set_budget(model, budget)
        loss = model(X)
        assert is_away(model.layers[0].weight) is moves
        loss.backward()
        model.zero_grad()
    assert same(train(model, inputs, steps=2), expected)


@pytest.mark.parametrize("options, why", [
    ({"strategy": "search"}, "would do nothing"), ({"strategy": "capuchin"}, "would do nothing"),
    ({"optimizer": "sgd", "fused_update": True}, "fused_update"),
])
def test_what_it_does_not_go_with_is_refused(options, why, tmp_path):
    with pytest.raises(lowtide.InputError, match=why):
        wrapped(tmp_path, "1GiB", **options)
    with pytest.raises(lowtide.InputError, match="True or False"):
        lowtide.Offload(tmp_path, parameters=1)
