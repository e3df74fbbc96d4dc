"""lowtide.wrap(precision=...): the bits of eager PyTorch under torch.autocast, within a budget."""

import contextlib
import copy
import pickle
import random
import types

import differential
import lowtide
import pytest
import torch
from lowtide.pytorch.integrations.in_place import enable_memory_budget
from lowtide.pytorch.wrap import session_of
from on_device import DEVICE
from torch import nn
from wrap_cases import (
    CASES,
    IMAGES,
    Deep,
    InThreeGraphs,
    built,
    loss_of,
    runs_again,
    same,
    smallest,
    train,
    trained_within_smallest_share,
)

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class UnderAutocast(nn.Module):
    """A model as eager PyTorch runs it in mixed precision."""

    def __init__(self, model, precision="bf16"):
        super().__init__()
        self.model, self.dtype = model, DTYPES[precision]

    def forward(self, *arguments, **named):
        with torch.autocast(DEVICE, self.dtype):
            return self.model(*arguments, **named)


class Gated(nn.Module):
    """Two results, of both widths, from a tensor and another one that is given by name."""

    def __init__(self):
        super().__init__()
        self.wide, self.gate, self.norm = nn.Linear(20, 64), nn.Linear(20, 64), nn.LayerNorm(64)

    def forward(self, x, *, gate=None):
        y = self.wide(x) * torch.sigmoid(self.gate(x if gate is None else gate))
        return y, self.norm(nn.functional.dropout(y, 0.2, self.training)).softmax(-1)


def plain_layers():
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 32))


def drawn(seed):
    """A random model with two results: linear layers, norms, attention, dropout."""
    return lambda: differential.module_from(random.Random(seed),
                                            types.SimpleNamespace(may_share=False))


def rows():
    return (torch.randn(16, 20),)


def wide_rows():
    return (torch.randn(16, 32),)


def sequences():
    return (torch.randn(differential.ROWS, differential.LENGTH, differential.WIDTH),)


MODELS = {
    "convolutions": CASES["convolutions"],
    "attention": CASES["attention"],
    "several results": (Gated, rows),
    "a loss": (Deep, wide_rows),
    "three graphs": (lambda: InThreeGraphs(plain_layers), wide_rows),
    **{f"drawn {seed}": (drawn(seed), sequences) for seed in range(4)},
}


@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("case", MODELS)
def test_training_within_a_budget_is_eager_training_under_autocast(case, precision):
    make, inputs_of = MODELS[case]
    wrapped, got = trained_within_smallest_share(make, inputs_of, precision=precision)
    assert same(got, train(UnderAutocast(built(make), precision), inputs_of))
    assert wrapped.memory.planned_peak <= wrapped.memory.budget


@pytest.mark.parametrize("make, inputs_of", [
    # For fewer rows, kernels that copy their inputs may take more than lower precision saves.
    CASES["convolutions"], (Deep, lambda: (torch.randn(256, 32),))])
def test_the_plan_is_of_the_lower_precision(make, inputs_of):
    low, full = (lowtide.wrap(built(make), inputs_of(), precision=precision)
                 for precision in ("bf16", None))
    assert low.memory.planned_above < full.memory.planned_above
    with torch.autocast(DEVICE, torch.bfloat16):
        around = lowtide.wrap(built(make), inputs_of())
    assert low.memory == around.memory


def test_small_budgets_run_ops_again():
    make, inputs_of = MODELS["convolutions"]
    assert runs_again(smallest(built(make), inputs_of(), precision="bf16"))


def test_without_example_inputs_and_with_other_sizes_and_named_inputs():
    def gradients(model):
        torch.manual_seed(4)
        for size in (16, 7, 16):
            first, second = torch.randn(2, size, 20)
            loss_of(model(first, gate=second)).backward()
        return [p.grad for p in model.parameters()]

    wrapped = lowtide.wrap(built(Gated), budget="100%", time_limit=0.3, precision="bf16")
    assert same(gradients(wrapped), gradients(UnderAutocast(built(Gated))))


def test_results_have_the_types_that_autocast_leaves_them_in():
    wrapped = lowtide.wrap(built(Gated), rows(), precision="bf16")
    with torch.no_grad():
        expected = [y.dtype for y in UnderAutocast(built(Gated))(*rows())]
    assert [y.dtype for y in wrapped(*rows())] == expected and torch.bfloat16 in expected
    assert {p.dtype for p in wrapped.parameters()} == {torch.float32}


def test_evaluation_is_eager_evaluation_under_autocast():
    wrapped = smallest(built(Gated), rows(), precision="bf16").eval()
    plain = UnderAutocast(built(Gated)).eval()
    given = rows()
    with torch.no_grad():
        assert same(wrapped(*given), plain(*given))


CALLERS = {
    "another type": lambda: torch.autocast(DEVICE, torch.float16),
    "disabled": lambda: torch.autocast(DEVICE, enabled=False),
}


@pytest.mark.parametrize("caller", CALLERS)
def test_inside_the_model_it_holds_whatever_the_caller_computes_in(caller):
    def step(model, context):
        torch.manual_seed(5)
        with context():
            results = model(*rows())
            with torch.autocast(DEVICE, enabled=False):
                loss = loss_of(results)
            loss.backward()
        return [*results, *(p.grad for p in model.parameters())]

    wrapped = lowtide.wrap(built(Gated), rows(), precision="bf16")
    assert same(step(wrapped, CALLERS[caller]),
                step(UnderAutocast(built(Gated)), contextlib.nullcontext))
    assert len(session_of(wrapped).regions) == 1  # the caller's context is no reason to plan anew


@pytest.mark.parametrize("with_gradients", [True, False])
def test_weights_that_the_caller_cast_to_another_type_are_cast_anew(with_gradients):
    """Eager PyTorch keeps casts by the weight alone, whatever their type."""
    plain, given = built(lambda: nn.Linear(20, 20)), rows()
    wrapped = lowtide.wrap(plain, given, precision="bf16")
    expected = UnderAutocast(plain)(*given)
    with torch.autocast(DEVICE, torch.float16):
        nn.functional.linear(*given, plain.weight)
        with torch.set_grad_enabled(with_gradients):
            assert torch.equal(wrapped(*given), expected)
            torch.clear_autocast_cache()
            wrapped(*given)
        assert nn.functional.linear(*given, plain.weight).dtype is torch.float16


def test_after_a_call_the_caller_computes_as_before():
    wrapped = lowtide.wrap(built(Gated), rows(), precision="bf16")
    x, = rows()
    wrapped(x)
    assert not torch.is_autocast_enabled(DEVICE) and (x @ x.t()).dtype == torch.float32
    with torch.autocast(DEVICE, torch.float16):
        wrapped(x)
        assert (x @ x.t()).dtype == torch.float16


def test_an_error_of_the_model_leaves_the_caller_as_before():
    wrapped = lowtide.wrap(built(Gated), rows(), precision="bf16")
    with pytest.raises(RuntimeError):
        wrapped(torch.randn(16, 21))
    assert not torch.is_autocast_enabled(DEVICE)


def test_a_gradient_scaler_skips_the_same_steps():
    def scaled(model):
        torch.manual_seed(2)
        optimizer = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0 ** 18, growth_interval=2)
        scales = []
        for _ in range(5):
            scaler.scale(loss_of(model(*IMAGES()))).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            scales.append(scaler.get_scale())
        return scales, [p.detach() for p in model.parameters()]

    make, _ = MODELS["convolutions"]
    scales, parameters = scaled(smallest(built(make), IMAGES(), precision="fp16"))
    expected_scales, expected = scaled(UnderAutocast(built(make), "fp16"))
    assert scales == expected_scales and same(parameters, expected)
    steps = list(zip([2.0 ** 18, *scales], scales))
    assert any(after < before for before, after in steps), "no step overflowed"
    assert any(after > before for before, after in steps), "the scale did not grow"


def test_within_another_wrapped_module_it_holds_for_the_inner_one():
    outer = built(lambda: nn.Sequential(nn.Linear(32, 32), plain_layers(), nn.Tanh()))
    expected = copy.deepcopy(outer)
    expected[1] = UnderAutocast(expected[1])
    outer[1] = lowtide.wrap(outer[1], precision="bf16")
    wrapped = lowtide.wrap(outer, wide_rows(), budget="100%", time_limit=0.3)
    assert same(train(wrapped, wide_rows), train(expected, wide_rows))
    assert len(session_of(wrapped).regions) == 1


def test_within_torch_compile_it_runs_by_its_own_plan():
    wrapped = lowtide.wrap(built(Gated), rows(), precision="bf16")
    runs = session_of(wrapped).runs
    compiled = torch.compile(lambda x: wrapped(x)[0], backend="eager")
    plain = UnderAutocast(built(Gated))
    given = rows()
    torch.manual_seed(1)
    got = compiled(*given)
    torch.manual_seed(1)
    assert torch.equal(got, plain(*given)[0]) and session_of(wrapped).runs == runs + 1


def test_a_module_that_others_hold_takes_it():
    make, inputs_of = MODELS["a loss"]
    model = built(make)
    with enable_memory_budget(model, "90%", inputs_of(), time_limit=0.3, precision="bf16"):
        assert same(train(model, inputs_of), train(UnderAutocast(built(make)), inputs_of))


def test_a_model_in_bfloat16_takes_it():
    def inputs_of():
        return (torch.randn(16, 32, dtype=torch.bfloat16),)

    wrapped = smallest(built(Deep).bfloat16(), inputs_of(), precision="bf16")
    assert same(train(wrapped, inputs_of), train(UnderAutocast(built(Deep).bfloat16()), inputs_of))


def test_a_model_without_parameters_takes_it():
    class Products(nn.Module):
        def forward(self, x):
            return x @ x.t()

    x = rows()[0].requires_grad_()
    wrapped = lowtide.wrap(Products(), x, precision="bf16")
    assert torch.equal(wrapped(x), UnderAutocast(Products())(x))


def test_values_move_with_it(tmp_path):
    def make():
        return Deep(width=128, layers=6)

    def inputs_of():
        return (torch.randn(4096, 128),)

    wrapped = lowtide.wrap(built(make), inputs_of(), budget="75%", time_limit=2, strategy="offload",
                           offload=lowtide.Offload(tmp_path, bandwidth="1GB/s"), optimizer="sgd",
                           precision="bf16")
    assert same(train(wrapped, inputs_of), train(UnderAutocast(built(make)), inputs_of))
    assert wrapped.memory.moved.bytes_out > 0


@pytest.mark.skipif(DEVICE == "cpu" or not hasattr(torch.accelerator, "Graph"),
                    reason="this device has no graphs")
def test_recorded_passes_compute_in_it():
    make, inputs_of = MODELS["a loss"]
    wrapped = lowtide.wrap(built(make), inputs_of(), "100%", time_limit=0.3, cuda_graph=True,
                           precision="bf16")
    assert same(train(wrapped, inputs_of, steps=4),
                train(UnderAutocast(built(make)), inputs_of, steps=4))


@pytest.mark.cpu_only("Inductor generates no code for this device")
def test_inductor_compiles_it(one_compiling_process):
    make, inputs_of = plain_layers, wide_rows
    wrapped = lowtide.wrap(built(make), inputs_of(), mode="inductor", precision="bf16")
    compiled = torch.compile(built(make), dynamic=False)
    given = inputs_of()

    def step(model, context):
        torch.manual_seed(3)
        with context:
            result = model(*given)
        loss_of(result).backward()
        return [result, *(p.grad for p in model.parameters())]

    assert same(step(wrapped, contextlib.nullcontext()),
                step(compiled, torch.autocast(DEVICE, torch.bfloat16)))


def test_the_largest_batch_is_larger():
    def make(size):
        return built(plain_layers), torch.randn(size, 32)

    low, full = (lowtide.max_batch(make, 200_000, limit=512, time_limit=0.3, verbose=False,
                                   precision=precision).size for precision in ("bf16", None))
    assert low > full


def test_a_copy_is_the_plain_model():
    make, inputs_of = MODELS["a loss"]
    wrapped = lowtide.wrap(built(make), inputs_of(), precision="bf16")
    expected = train(built(make), inputs_of)
    for other in (copy.deepcopy(wrapped), pickle.loads(pickle.dumps(wrapped))):
        assert same(train(other, inputs_of), expected)


def test_wrapped_again_without_it_the_model_computes_as_the_caller_does():
    make, inputs_of = MODELS["a loss"]
    again = lowtide.wrap(lowtide.wrap(built(make), precision="bf16"), inputs_of())
    assert same(train(again, inputs_of), train(built(make), inputs_of))


@pytest.mark.parametrize("precision", ["f32", "bfloat16", "BF16", torch.bfloat16, 16, True, []])
def test_other_values_are_refused_at_once(precision):
    expected = "precision must be \"bf16\", \"fp16\" or None, not "
    for refused in (lambda: lowtide.wrap(built(Deep), precision=precision),
                    lambda: lowtide.wrap(built(Deep), mode="inductor", precision=precision),
                    lambda: lowtide.max_batch(lambda size: (built(Deep), torch.randn(size, 32)),
                                              10**6, precision=precision)):
        with pytest.raises(lowtide.InputError) as error:
            refused()
        assert str(error.value) == expected + repr(precision)


def test_torch_compile_is_told_to_use_autocast():
    compiled = torch.compile(built(Deep), backend="lowtide", options={"precision": "bf16"})
    with pytest.raises(lowtide.InputError, match="under torch.autocast, or use lowtide.wrap"):
        compiled(*wide_rows())


def test_a_device_without_autocast_is_refused():
    wrapped = lowtide.wrap(nn.Linear(4, 4, device="meta"), precision="bf16")
    with pytest.raises(lowtide.InputError, match="no autocast for the device meta"):
        wrapped(torch.empty(2, 4, device="meta"))


@pytest.mark.parametrize("precision, instructions, warns", [
    ("bf16", False, True), ("fp16", False, True), ("bf16", True, False), (None, False, False)])
def test_a_processor_that_is_slow_in_a_precision_is_warned_of(precision, instructions, warns,
                                                              monkeypatch, recwarn):
    asked = []
    monkeypatch.setattr("lowtide.pytorch.common.precision._has_instructions",
                        lambda name: asked.append(name) or instructions)
    lowtide.wrap(Deep().to(DEVICE), precision=precision, verbose=False)
    told = [w for w in recwarn if "has no instructions" in str(w.message)]
    on_processor = DEVICE == "cpu"
    assert len(told) == (warns and on_processor)
    assert asked == ([precision] if precision and on_processor else [])
    assert all(w.filename == __file__ for w in told)
