"""What an op refuses is an error of the class that it has without Lowtide."""

import lowtide
import pytest
import torch
from torch import nn
from torch.nn import functional as F

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
