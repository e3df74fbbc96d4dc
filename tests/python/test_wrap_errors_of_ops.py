"""What an op refuses is an error of the class that it has without Lowtide."""

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from torch import nn
from torch.nn import functional as F
from wrap_cases import built, same

pytestmark = pytest.mark.usefixtures("own_cache")

TOKENS = torch.arange(64).reshape(8, 8) % 10


class Words(nn.Module):
    """Of ten words."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(10, 16), nn.Linear(16, 10)

    def forward(self, tokens, targets):
        scores = self.head(torch.tanh(self.embedding(tokens)))
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def raised(model, *inputs):
    with pytest.raises(Exception) as caught:
        model(*inputs)
    return caught.value


@pytest.mark.cpu_only("an index is looked at by kernels of the host alone")
@pytest.mark.parametrize("tokens, targets", [(TOKENS + 1, TOKENS), (TOKENS, TOKENS + 1),
                                             (-1 - TOKENS, TOKENS)])
def test_an_index_out_of_range_is_the_error_that_it_is_without_a_plan(tokens, targets):
    torch.manual_seed(0)
    plain = Words()
    wanted = raised(plain, tokens, targets)
    wrapped = lowtide.wrap(Words(), (TOKENS, TOKENS), "90%", optimizer="none", time_limit=0.3)
    wrapped.load_state_dict(plain.state_dict())
    got = raised(wrapped, tokens, targets)
    assert type(got) is type(wanted) is IndexError
    assert str(wanted).splitlines()[0] in str(got) and " failed: " in str(got)
    for model in (plain, wrapped):
        model(TOKENS, TOKENS).backward()
    assert all(torch.equal(a.grad, b.grad)
               for a, b in zip(plain.parameters(), wrapped.parameters(), strict=True))


class Tries(nn.Module):
    """Has a second way where the sizes do not fit the first."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Dropout(0.2))
        self.narrow, self.wide = (nn.Parameter(torch.randn(size, 4)) for size in (8, 16))

    def forward(self, x, breaks=False):
        hidden = self.body(x)
        if breaks:
            torch._dynamo.graph_break()
        try:
            return hidden @ self.narrow
        except RuntimeError:
            return hidden @ self.wide


def left_by(model, x, **named):
    torch.manual_seed(1)
    result = model(x, **named)
    result.square().sum().backward()
    left = [p.grad for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    return [result.detach(), *left, *model.buffers(), torch.get_rng_state()]


@pytest.mark.parametrize("breaks", [False, True])
def test_a_model_may_catch_an_error_of_its_op(breaks):
    """Statistics move once, also where a part of the call has run before."""
    plain, wrapped = built(Tries), lowtide.wrap(built(Tries), time_limit=0.3)
    x = torch.randn(8, 16)
    with pytest.warns(UserWarning, match="without a plan: an op raised.*caught it.*narrow") as said:
        for _ in range(3):
            assert same(left_by(wrapped, x, breaks=breaks), left_by(plain, x, breaks=breaks))
    assert len(said) == 1


def test_a_model_that_catches_an_error_of_its_op_is_wrapped_with_example_inputs():
    model, x = built(Tries), torch.randn(8, 16)
    before = [tensor.clone() for tensor in model.state_dict().values()]
    with pytest.warns(UserWarning, match="nothing of Tries was planned.*an op raised.*caught it"):
        lowtide.wrap(model, x, time_limit=0.3)
    assert same(before, list(model.state_dict().values()))


def test_calls_whose_ops_raise_nothing_are_planned_after_one_whose_op_did():
    class Sizes(Tries):
        def forward(self, x, width=16):
            self.body(x)
            return super().forward(x) if width == 16 else self.body(x)[:, :8] @ self.narrow

    model, x = lowtide.wrap(built(Sizes), time_limit=0.3), torch.randn(8, 16)
    with pytest.warns(UserWarning, match="an op raised"):
        left_by(model, x)
    runs = session_of(model).runs
    left_by(model, x, width=8)
    assert session_of(model).has_plans and session_of(model).runs == runs + 1


def test_what_no_code_catches_is_the_error_that_it_is_without_a_plan():
    class Narrow(Tries):
        def forward(self, x):
            return self.body(x) @ self.narrow

    x = torch.randn(8, 16)
    wanted, got = raised(Narrow(), x), raised(lowtide.wrap(Narrow(), time_limit=0.3), x)
    assert type(got) is type(wanted) is RuntimeError
    assert str(got) == str(wanted)
    with pytest.raises(RuntimeError, match="16.*8"):
        lowtide.wrap(Narrow(), x, time_limit=0.3)
