"""What a wrapped module does not do: each says what is wrong, and leaves the model as it was."""

import copy
import gc
import re
import weakref

import lowtide
import pytest
import torch
from lowtide import _core
from lowtide.pytorch.common.module_state import unchanged
from on_device import DEVICE, seeded
from torch import nn
from wrap_cases import IMAGES, ROWS, Convolutions, Randomly, built, loss_of, same, train

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


def test_wrapping_changes_nothing():
    model = built(Convolutions)
    before = copy.deepcopy(model.state_dict())
    torch.manual_seed(5)
    state = torch.get_rng_state()
    lowtide.wrap(model, torch.randn(4, 3, 16, 16, generator=seeded(1)), budget="90%",
                 time_limit=0.3)
    assert same(list(before.values()), list(model.state_dict().values()))
    assert torch.equal(state, torch.get_rng_state())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_budget_that_cannot_be_met_leaves_the_model():
    model = built(Convolutions)
    inputs = IMAGES()
    with pytest.raises(lowtide.InfeasibleError, match="smallest budget"):
        lowtide.wrap(model, inputs, budget=1000, time_limit=0.3)
    with pytest.raises(lowtide.InfeasibleError, match="No plan of any kind"):
        lowtide.wrap(model, inputs, budget="30%", time_limit=0.3)
    assert type(model) is Convolutions
    assert same(train(model, IMAGES), train(built(Convolutions), IMAGES))


@pytest.fixture
def no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("slices", [1, "auto"])
def test_an_error_keeps_nothing_that_the_call_had(slices, no_collection):
    wrapped = lowtide.wrap(built(Convolutions), budget=1000, slices=slices, time_limit=0.3,
                           cache=False)
    inputs = IMAGES()
    with pytest.raises(lowtide.InfeasibleError) as refused:
        wrapped(*inputs)
    del refused
    kept = weakref.ref(inputs[0])
    del inputs
    assert kept() is None


def test_changing_a_parameter_in_between_is_noticed():
    wrapped = lowtide.wrap(built(Randomly), ROWS())
    loss = loss_of(wrapped(*ROWS()))
    with torch.no_grad():
        wrapped.second.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_changing_a_result_in_between_is_noticed():
    model = nn.Sequential(nn.Linear(20, 20), nn.Sigmoid())
    output = lowtide.wrap(model, ROWS())(*ROWS())
    loss = output.sum()
    with torch.no_grad():
        output.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_gradients_of_gradients_are_refused_however_they_are_asked_for():
    model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 1))
    wrapped = lowtide.wrap(model, ROWS(), budget=None)
    x = ROWS()[0].requires_grad_()
    gradient, = torch.autograd.grad(wrapped(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="gradients of gradients"):
        torch.autograd.grad(gradient.pow(2).sum(), list(model.parameters()), allow_unused=True)
    with pytest.raises(RuntimeError, match="gradients of gradients"):
        torch.autograd.functional.hvp(lambda x: wrapped(x).sum(), x.detach(), x.detach())
    with pytest.raises(RuntimeError, match="gradients of gradients"):
        torch.autograd.functional.jvp(wrapped, x.detach(), x.detach())


def test_a_batch_of_gradients_is_refused():
    wrapped = lowtide.wrap(nn.Sequential(nn.Linear(20, 4), nn.Tanh()), ROWS(), budget=None)
    with pytest.raises(RuntimeError, match="one gradient for each result"):
        torch.autograd.functional.jacobian(wrapped, ROWS()[0], vectorize=True)
    assert torch.autograd.functional.jacobian(wrapped, ROWS()[0]).shape == (16, 4, 16, 20)


@pytest.mark.parametrize("budget", [float("nan"), True, torch.tensor(10**8), 1j, "6G"])
def test_budgets_that_mean_nothing_are_refused_at_once(budget):
    with pytest.raises(lowtide.InputError, match="budget"):
        lowtide.wrap(built(Randomly), budget=budget)


@pytest.mark.parametrize("budget", ["120%", "many", "0"])
def test_a_wrong_budget_is_refused_in_the_same_words_everywhere(budget):
    """By the planner, by wrap before anything is captured, and as an option of torch.compile."""
    graph = lowtide.capture(built(Randomly), ROWS())
    compiled = torch.compile(built(Randomly), backend="lowtide", options={"budget": budget})
    said = []
    for refused in (lambda: lowtide.plan(graph, budget),
                    lambda: lowtide.wrap(built(Randomly), budget=budget),
                    lambda: compiled(*ROWS())):
        with pytest.raises(lowtide.InputError) as error:
            refused()
        said.append(str(error.value))
    assert len(set(said)) == 1 and said[0].startswith(f'budget "{budget}"')


@pytest.mark.parametrize("budget", ["many", "0"])
def test_where_only_bytes_are_a_budget_no_share_is_proposed(budget):
    with pytest.raises(lowtide.InputError, match=f'^budget "{budget}"') as error:
        lowtide.max_batch(pytest.fail, budget)
    assert "share" not in str(error.value) and "512MB" in str(error.value)


def test_a_call_with_another_type_is_pytorchs_own_kind_of_error():
    wrapped = lowtide.wrap(built(Randomly), ROWS())
    with pytest.raises(RuntimeError):
        wrapped(ROWS()[0].double())
    loss_of(wrapped(*ROWS())).backward()


def test_misuse_is_named():
    with pytest.raises(lowtide.InputError, match="torch.nn.Module"):
        lowtide.wrap(lambda x: x)
    with pytest.raises(lowtide.InputError, match="optimizer"):
        lowtide.wrap(built(Randomly), ROWS(), budget="90%", optimizer="adm")
    with pytest.raises(lowtide.InputError, match="budget"):
        lowtide.wrap(built(Randomly), ROWS(), budget="many")
    with pytest.raises(lowtide.InputError, match="not wrapped"):
        lowtide.explain(built(Randomly))


def test_a_wrapped_layer_is_parametrized_before():
    layer = nn.Linear(20, 20)
    wrapped = lowtide.wrap(layer, ROWS(), time_limit=0.3)
    nn.utils.parametrizations.weight_norm(wrapped)
    with pytest.raises(lowtide.InputError, match='"weight" of Linear was parametrized after'):
        wrapped(*ROWS())
    nn.utils.parametrize.remove_parametrizations(wrapped, "weight")
    nn.utils.parametrizations.weight_norm(layer)
    wrapped, plain = lowtide.wrap(layer, ROWS(), time_limit=0.3), copy.deepcopy(layer)
    assert same(train(wrapped, ROWS), train(plain, ROWS))


@pytest.mark.parametrize("inputs", [None, torch.ones(2, 4)])
def test_shapes_that_the_first_call_decides_are_asked_for(inputs):
    model = nn.Sequential(nn.Linear(4, 4), nn.LazyBatchNorm1d(affine=False), nn.LazyLinear(3))
    for tensor in ("2.weight", "1.running_mean"):
        with pytest.raises(lowtide.InputError, match=f'"{tensor}" of .* call Sequential once'):
            lowtide.wrap(model, inputs)
        model[2] = nn.Linear(4, 3)
    with torch.no_grad():
        model(torch.ones(2, 4))
    lowtide.wrap(model, inputs, time_limit=0.3)(torch.ones(2, 4)).sum().backward()


def test_another_device_is_refused():
    model = nn.Linear(4, 4, device="meta")
    with pytest.raises(lowtide.InputError, match="on the device meta, and plans are run on"):
        lowtide.wrap(model, torch.empty(2, 4, device="meta"))


class BrokenInALoop(torch.nn.Module):
    """Dynamo gives up a function with a graph break in a loop that it cannot unroll."""

    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x):
        for part in self.parts:
            x = part(x)
            torch._dynamo.graph_break()
        return x


def test_a_model_that_runs_without_a_plan_says_so():
    wrapped = lowtide.wrap(built(BrokenInALoop), budget="100%", time_limit=0.3)
    with pytest.warns(UserWarning, match="BrokenInALoop ran without a plan"):
        wrapped(torch.randn(3, 4))


def test_a_budget_below_the_parameters():
    model = nn.Linear(64, 64)
    with pytest.raises(lowtide.InfeasibleError, match="inputs alone exceed the budget of 20 KB"):
        lowtide.wrap(model, torch.randn(2, 64), budget="20 KB")


@pytest.mark.cpu_only("budgets that count buffers for copies, as on the CPU")
@pytest.mark.parametrize("budget", ["500KiB", "1MiB"])
def test_a_budget_below_the_buffers_for_copies_names_them(tmp_path, budget):
    model = nn.Sequential(*[nn.Linear(128, 128) for _ in range(6)])
    optimizer = torch.optim.Adam(model.parameters())
    with pytest.raises(lowtide.InfeasibleError, match="copies alone exceed the budget") as refused:
        lowtide.wrap(model, torch.randn(8, 128), budget=budget, optimizer=optimizer,
                     offload=tmp_path, time_limit=0.1)
    figures = re.search(r"by (\S+ \S+): they are (.*?)\.\s", str(refused.value))
    excess, parts = figures[1], [part.split(" of ")[0] for part in figures[2].split(", ")
                                 if " of " in part]
    total = sum(_core.Budget(part).bytes for part in parts)
    assert "8.00 MiB of buffers for copies" in figures[2]
    assert total - _core.Budget(budget).bytes == pytest.approx(_core.Budget(excess).bytes,
                                                              rel=0.01)


@pytest.mark.parametrize("options", [
    {}, {"slices": "auto"}, {"dynamic_shapes": ({0: torch.export.Dim("rows", min=2, max=8)},)}])
def test_a_model_that_is_moved_after_it_was_wrapped(options):
    wrapped = lowtide.wrap(nn.Linear(4, 4), torch.randn(2, 4), "100%", time_limit=0.1, **options)
    wrapped(torch.randn(2, 4)).sum().backward()
    wrapped.to("meta")
    with pytest.raises(lowtide.InputError, match="on the device meta, and plans are run on"):
        wrapped(torch.empty(2, 4, device="meta"))


def test_inputs_on_another_device_than_the_model():
    wrapped = lowtide.wrap(nn.Linear(4, 4), torch.randn(2, 4))
    said = rf"is on {DEVICE}\S* and was called with tensors on meta"
    with pytest.raises(lowtide.InputError, match=said):
        wrapped(torch.empty(2, 4, device="meta"))
    wrapped(torch.randn(2, 4)).sum().backward()  # and the model still works


def test_gradients_of_gradients():
    x = torch.randn(16, 20, requires_grad=True)
    wrapped = lowtide.wrap(nn.Sequential(nn.Linear(20, 20), nn.Tanh()), x)
    (gradient,) = torch.autograd.grad(wrapped(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="gradients of gradients cannot be computed"):
        gradient.square().sum().backward()


def test_forward_mode():
    wrapped = lowtide.wrap(nn.Sequential(nn.Linear(20, 20), nn.Tanh()), ROWS())
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(*ROWS(), torch.ones(16, 20))
        with pytest.raises(lowtide.InputError, match="forward mode cannot go through it"):
            wrapped(dual)


def test_a_second_backward_pass_without_retaining():
    loss = lowtide.wrap(nn.Linear(20, 20), ROWS())(*ROWS()).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


@pytest.mark.parametrize("kept", [dict, list])
def test_tensors_that_a_module_exchanges_in_a_container_are_put_back(kept):
    model, before = torch.nn.Linear(2, 2), torch.zeros(3)
    model.seen = {"x": before} if kept is dict else [before]
    with unchanged(model):
        model.seen["x" if kept is dict else 0] = torch.ones(3)
    (after,) = model.seen.values() if kept is dict else model.seen
    assert after is before
