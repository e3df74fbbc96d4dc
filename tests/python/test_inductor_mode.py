"""lowtide.wrap(mode="inductor"): the step of torch.compile, within a budget, measured."""

import gc
import json
import urllib.request

import lowtide
import pytest
import torch
from lowtide import _runtime
from lowtide.pytorch.dynamo.trace import forget, traced
from lowtide.pytorch.inductor.measure import peak_of_step
from report_cases import document_of
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor import config as inductor_config
from torch.nn.modules.module import register_module_forward_hook
from torch_memory import profiled

pytestmark = pytest.mark.usefixtures("one_thread", "one_compiling_process")


class Net(nn.Module):
    """Batch norm, whose statistics move, dropout, and a loss."""

    def __init__(self):
        super().__init__()
        blocks = [(nn.Linear(32, 32), nn.Dropout(0.2), nn.Tanh()) for _ in range(4)]
        self.layers = nn.Sequential(nn.BatchNorm1d(32), *(layer for b in blocks for layer in b))

    def forward(self, x, target):
        return nn.functional.mse_loss(self.layers(x), target)


def batch(rows=1024):
    drawn = torch.Generator().manual_seed(0)
    return torch.randn(rows, 32, generator=drawn), torch.randn(rows, 32, generator=drawn)


def model():
    torch.manual_seed(1)
    return Net()


def outcome(module, run, inputs):
    """Loss, gradients and buffers of a step that begins as model() does."""
    module.load_state_dict(model().state_dict())
    torch.manual_seed(2)
    loss = run(*inputs)
    loss.backward()
    found = [loss.detach(), *(p.grad for p in module.parameters()),
             *(b.clone() for b in module.buffers())]
    module.zero_grad()
    return found


@pytest.fixture(scope="module")
def unlimited():
    """The model as it is, what torch.compile makes of a step, and the wrapped model."""
    module, inputs = model(), batch()
    with inductor_config.patch(compile_threads=1):
        plain = outcome(module, torch.compile(module, dynamic=False), inputs)
        wrapped = lowtide.wrap(module, inputs, mode="inductor", optimizer="adam")
    return module, plain, wrapped


def test_without_a_limit_it_is_torch_compile(unlimited):
    module, plain, wrapped = unlimited
    for ours, theirs in zip(outcome(module, wrapped, batch()), plain, strict=True):
        assert torch.equal(ours, theirs)


def test_the_figures_count_all_that_a_step_needs(unlimited):
    module, _, wrapped = unlimited
    inputs = batch()
    above, _, _ = profiled(lambda: wrapped(*inputs).backward())
    module.zero_grad()
    held = [*module.parameters(), *module.buffers(), *inputs]
    sizes = [parameter.nbytes for parameter in module.parameters()]
    existing = sum(tensor.nbytes for tensor in held) + 2 * sum(sizes) + 4 * len(sizes)
    assert wrapped.memory.existing == existing
    assert wrapped.memory.measured_peak == pytest.approx(existing + above, abs=64)
    assert wrapped.memory.planned_peak == pytest.approx(existing + above, rel=0.1)


def test_a_page_shows_what_is_known_of_it_while_it_trains(unlimited):
    module, _, wrapped = unlimited
    outcome(module, wrapped, batch())
    with lowtide.live(wrapped) as live:
        for step in range(4):
            outcome(module, wrapped, batch())
            live.step(loss=step)
        with urllib.request.urlopen(f"{live.url}state", timeout=30) as answer:
            found = json.load(answer)
    assert found["passes"]["count"] == 4 and found["steps"]["count"] == 4
    assert found["figures"] == lowtide.metrics(wrapped, prefix="")
    assert "predicted_seconds" not in found["figures"]
    outcome(module, wrapped, batch())  # the page is gone, and the training goes on


def report_of(wrapped, folder):
    pytest.importorskip("plotly")
    return document_of(lowtide.report(wrapped, folder / "page.html", time_limit=0))


def test_a_report_shows_the_step(unlimited, tmp_path):
    _, _, wrapped = unlimited
    page = report_of(wrapped, tmp_path)
    assert dict(page["figures"])["split"] == "PyTorch's own split"
    graph, = page["graphs"]
    layers = {row["layer"].split(".")[0] for row in graph["decisions"]["rows"]}
    assert layers == {"layers"} and not graph["arena"] and graph["addresses"]


def test_a_budget_is_held_and_the_gradients_stay(unlimited, tmp_path):
    module, plain, without = unlimited
    budget = without.memory.existing + without.memory.measured_above * 85 // 100
    inputs, numbers = batch(), torch.get_rng_state()
    state = {name: value.clone() for name, value in module.state_dict().items()}
    wrapped = lowtide.wrap(module, inputs, budget, mode="inductor", time_limit=0.5)
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), numbers)
    assert all(parameter.grad is None for parameter in module.parameters())
    assert wrapped.memory.budget == budget >= wrapped.memory.measured_peak
    above, _, _ = profiled(lambda: wrapped(*inputs).backward())
    module.zero_grad()
    assert above <= budget - wrapped.memory.existing
    for ours, theirs in zip(outcome(module, wrapped, inputs), plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    text = lowtide.explain(wrapped)
    assert str(wrapped.memory) in text and "Runs again" in text and "aten." in text
    page = report_of(wrapped, tmp_path)
    assert str(wrapped.memory) in page["lead"]
    assert "run again" in {row["what"] for row in page["graphs"][0]["decisions"]["rows"]}


def test_another_shape_is_fitted_anew(unlimited):
    module, _, wrapped = unlimited
    before = wrapped.memory.measured_above
    wrapped(*batch(256)).backward()
    module.zero_grad()
    assert wrapped.memory.measured_above < before


def test_a_hook_of_all_modules_is_compiled_in_and_out(unlimited):
    module, _, wrapped = unlimited
    module.eval()  # without dropout, which Inductor draws otherwise
    expected = outcome(module, module, batch())

    def require_same_as_eager(expected):
        for ours, theirs in zip(outcome(module, wrapped, batch()), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)

    require_same_as_eager(expected)
    with register_module_forward_hook(
            lambda one, given, result: result / 2 if isinstance(one, nn.Tanh) else None):
        hooked = outcome(module, module, batch())
        assert not torch.allclose(hooked[0], expected[0], rtol=0.01)
        require_same_as_eager(hooked)
    require_same_as_eager(expected)
    module.train()


def test_gradients_that_are_kept_count_and_nothing_is_compiled_twice(unlimited):
    module, _, wrapped = unlimited
    wrapped(*batch()).backward()
    without = wrapped.memory.existing
    hits = counters["inductor"]["fxgraph_cache_hit"]
    wrapped(*batch()).backward()
    module.zero_grad()
    sizes = sum(parameter.nbytes for parameter in module.parameters())
    assert wrapped.memory.existing == without + sizes
    assert counters["inductor"]["fxgraph_cache_hit"] == hits + 2  # forward and backward


def test_no_settings_are_changed_around_a_call(unlimited, monkeypatch):
    """That would take longer than a small model's forward pass."""
    module, _, wrapped = unlimited
    wrapped(*batch())
    monkeypatch.setattr(type(torch._dynamo.config), "patch", None)
    wrapped(*batch()).backward()
    module.zero_grad()


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        if y.sum() > 0:
            y = y * 2
        return y


def test_what_is_no_single_graph_is_refused():
    with pytest.raises(lowtide.InputError, match="test_inductor_mode.py.*in forward"):
        lowtide.wrap(Broken(), torch.randn(2, 4), mode="inductor")


def test_what_trains_nothing_runs_without_a_fit():
    frozen = nn.Linear(4, 4).requires_grad_(False)
    wrapped = lowtide.wrap(frozen, mode="inductor")
    x = torch.randn(2, 4)
    torch.testing.assert_close(wrapped(x), frozen(x))
    assert lowtide.explain(wrapped).startswith("Nothing is compiled yet")


def test_an_unknown_mode_is_refused():
    with pytest.raises(lowtide.InputError, match="executor, inductor"):
        lowtide.wrap(model(), mode="eager")


def test_it_is_an_option_of_the_backend(unlimited):
    module, plain, _ = unlimited
    compiled = torch.compile(module, backend="lowtide", dynamic=False,
                             options={"mode": "inductor", "budget": "inf"})
    for ours, theirs in zip(outcome(module, compiled, batch()), plain, strict=True):
        assert torch.equal(ours, theirs)


def test_both_ways_in_search_as_long(monkeypatch):
    asked = []

    def refuse(graph, budget, **how):
        asked.append(how)
        raise lowtide.InfeasibleError("enough is known")

    monkeypatch.setattr("lowtide.pytorch.inductor.select.partition_fn.plan", refuse)
    settings = {"mode": "inductor", "budget": "60%"}
    with pytest.raises(lowtide.InfeasibleError, match="enough is known"):
        lowtide.wrap(model(), batch(), **settings)
    with pytest.raises(lowtide.InfeasibleError, match="enough is known"):
        torch.compile(model(), backend="lowtide", dynamic=False, options=settings)(*batch())
    assert asked[0] == asked[-1] and asked[0]["options"]["moves"] == 1000


def test_it_promises_to_keep_no_plans():
    for cache in (True, "refresh"):
        with pytest.raises(lowtide.InputError, match="keeps no plans"):
            lowtide.wrap(model(), mode="inductor", cache=cache)
    lowtide.wrap(model(), mode="inductor", cache=False)


def test_a_wrong_budget_is_refused_before_anything_is_compiled():
    with pytest.raises(lowtide.InputError, match="unknown unit"):
        lowtide.compile_within(model(), "6G", lambda compiled: pytest.fail("was compiled"))


def test_what_stays_of_the_first_step_counts():
    layer, kept = nn.Linear(4, 4), []

    def run(x, stays):
        if stays and not kept:
            kept.append(torch.zeros(1000))
        return layer(x)

    without, with_it = (peak_of_step(run, layer, (torch.randn(2, 4), stays), {})
                        for stays in (False, True))
    assert with_it == without + 4000


def test_nothing_is_held_for_a_function_that_is_forgotten():
    """Autograd keeps the number that a tensor is multiplied by, as Dynamo traces it."""
    def counted():
        gc.collect()
        return _runtime.taken_bytes()

    layer, x = nn.Linear(4, 4), torch.randn(2, 4)
    before = counted()
    compiled = traced(lambda x: (layer(x) * 0.3).sum(), "aot_eager", fixed_shapes=True)
    compiled(x).backward()
    layer.zero_grad()
    assert counted() > before
    forget(compiled)
    assert counted() == before
