"""Models that compute with complex numbers: eager's bits within the budget."""

import lowtide
import pytest
import torch
from torch import nn
from wrap_cases import ROWS, built, require_eager_bits_within_the_budget

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


class Rotary(nn.Module):
    """Positions as rotations of pairs of features, as language models with `freqs_cis` do it."""

    def __init__(self):
        super().__init__()
        self.mix, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        angles = torch.arange(6.0).outer(10 ** -torch.arange(4.0))
        self.register_buffer("rotations", torch.polar(torch.ones_like(angles), angles))

    def rotated(self, x):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.rotations).flatten(-2).type_as(x)

    def forward(self, x):
        q, k, v = self.mix(x).view(*x.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
        a = (self.rotated(q) @ self.rotated(k).transpose(-1, -2)).softmax(-1)
        return self.out((a @ v).transpose(1, 2).flatten(2))


class Fourier(nn.Module):
    """Filters each channel by complex weights, as Fourier neural operators do."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(20, 20), nn.GELU())
        self.weights = nn.ParameterList(
            torch.randn(20, 20, 11, dtype=torch.complex64) / 20 for _ in range(2))

    def forward(self, x):
        for weight in self.weights:
            waves = torch.fft.rfft(x.unsqueeze(1).expand(-1, 20, -1))
            x = self.inner(torch.fft.irfft(torch.einsum("bif,iof->bof", waves, weight), n=20)
                           .mean(1))
        return x


class Conjugates(nn.Module):
    """Matrix products read conjugates without a copy; numbers and results are complex, too."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(30, 20, dtype=torch.complex64))
        self.second = nn.Parameter(torch.randn(20, 30, dtype=torch.complex64))

    def forward(self, x):
        x = torch.tanh((x + 0.5j * x) @ self.first.conj().T) * 2j
        x = torch.tanh(x @ self.second.mH)
        return x.real, x.conj().imag


MODELS = {
    "rotary": (Rotary, lambda: (torch.randn(3, 6, 16),)),
    "fourier": (Fourier, ROWS),
    "conjugates": (Conjugates, ROWS),
}


@pytest.mark.parametrize("case", MODELS)
def test_training_is_eager_training_to_the_bit(case):
    require_eager_bits_within_the_budget(*MODELS[case])


class Turned(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = nn.Parameter(torch.randn(8, dtype=torch.complex128))

    def forward(self, z):
        return (z * self.turn).exp().conj()


@pytest.mark.parametrize("arrives_conjugate", [False, True])
def test_marks_of_conjugates_pass_the_doors(arrives_conjugate):
    """PyTorch marks a conjugate and leaves the numbers: marks of inputs, of results and of
    gradients all count."""
    z = built(lambda: torch.randn(5, 8, dtype=torch.complex128), seed=9)
    plain, inner = built(Turned), built(Turned)
    wrapped = lowtide.wrap(inner, (z,), budget="1GiB", time_limit=0.3)
    for module in (plain, wrapped):
        given = (z.conj() if arrives_conjugate else z.clone()).detach().requires_grad_()
        result = module(given)
        result.mul(1 + 2j).sum().abs().backward()
        module.seen = [torch.view_as_real(tensor.resolve_conj()) for tensor in
                       (result.detach(), given.grad, next(module.parameters()).grad)]
    for got, expected in zip(wrapped.seen, plain.seen):
        assert torch.equal(got, expected)
