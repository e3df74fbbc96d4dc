"""The backend of torch.compile: eager's bits within the budget."""

import lowtide
import pytest
import torch
from torch import nn
from wrap_cases import IMAGES, ROWS, Convolutions, Randomly, built, loss_of, same, train

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


def test_the_backend_of_torch_compile():
    model = built(Convolutions)
    compiled = torch.compile(model, backend="lowtide",
                             options={"budget": "90%", "time_limit": 1.0})
    plain = built(Convolutions)
    train(compiled, IMAGES), train(plain, IMAGES)
    assert same(list(model.state_dict().values()), list(plain.state_dict().values()))


def test_gradients_accumulate_by_torch_compile():
    def accumulate(model):
        torch.manual_seed(2)
        for _ in range(3):
            loss_of(model(*IMAGES())).backward()
        return [p.grad for p in model.parameters()]

    compiled = torch.compile(built(Convolutions), backend="lowtide", options={"budget": "2MB"})
    assert same(accumulate(compiled), accumulate(built(Convolutions)))


def test_an_unknown_option_of_torch_compile():
    compiled = torch.compile(built(Randomly), backend="lowtide", options={"bugdet": "2MB"})
    with pytest.raises(lowtide.InputError, match="no option 'bugdet'"):
        compiled(*ROWS())


@pytest.mark.parametrize("cache", [None, False])
def test_a_budget_that_nothing_fits_says_which_one_does(cache):
    def compiled(budget):
        torch._dynamo.reset()
        return torch.compile(built(Randomly), backend="lowtide",
                             options={"budget": budget, "time_limit": 1.0, "cache": cache})

    with pytest.raises(lowtide.InfeasibleError) as error:
        compiled("1KiB")(*ROWS())
    compiled(error.value.smallest_budget)(*ROWS())


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(8, 8), nn.Dropout(0.3)

    def forward(self, x, factor=1.0):
        return self.drop(self.layer(x).tanh()) * factor


def test_numbers_that_dynamo_leaves_open():
    """With dynamic=True, the share of a dropout is an input of the graph."""
    def gradients(run, module):
        for rows, factor in ((4, 1.0), (4, 0.5), (6, 0.5), (4, 1.0)):
            torch.manual_seed(rows)
            run(torch.ones(rows, 8), factor).sum().backward()
        return [p.grad for p in module.parameters()]

    plain, planned = built(Dropping), built(Dropping)
    compiled = torch.compile(planned, backend="lowtide", dynamic=True,
                             options={"budget": "100%", "time_limit": 0.3})
    assert same(gradients(compiled, planned), gradients(plain, plain))


class LossBehindABreak(nn.Module):
    """The second graph's logits, which the caller drops, are most of what it takes, so that its
    addresses take more than its values."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(32, 32), nn.Linear(32, 64)

    def forward(self, x, y):
        inner = self.body(x).tanh()
        torch._dynamo.graph_break()
        logits = self.head(inner).to(torch.bfloat16)
        return nn.functional.cross_entropy(logits.float(), y), logits


def trained_within(budget, **options):
    """The wrapped model after two steps."""
    inputs = torch.randn(128, 32), torch.randint(64, (128,))
    model = lowtide.wrap(LossBehindABreak(), inputs, budget, optimizer="sgd", time_limit=0.3,
                         **options)
    for _ in range(2):
        model.zero_grad()
        model(*inputs)[0].backward()
    return model


@pytest.mark.parametrize("budget", ["100%", "8GiB"])
def test_what_keeps_everything_suffices_for_each_graph(budget):
    memory = trained_within(budget).memory
    assert memory.measured_peak <= memory.planned_peak <= memory.budget


@pytest.mark.parametrize("named, errors", [("40%", 1), ("20KiB", 2)])
def test_the_smallest_budget_of_all_graphs_is_named_and_does(named, errors):
    """An error that comes when the first graph is planned cannot know of the second. Of a share,
    which is one of all graphs, it comes when both are known."""
    for _ in range(errors):
        with pytest.raises(lowtide.InfeasibleError) as error:
            trained_within(named, when_infeasible="error")
        named = error.value.smallest_budget
    assert trained_within(named).memory.measured_peak <= named
