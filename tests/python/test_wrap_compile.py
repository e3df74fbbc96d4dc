"""The backend of torch.compile: eager's bits within the budget."""

import lowtide
import pytest
import torch
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
