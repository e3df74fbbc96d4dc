"""Estimates of models that ask what their tensors hold: known where it follows from the batch."""

import gc

import lowtide
import pytest
import torch
from lowtide import _runtime
from torch import nn

ROWS, LENGTH, WIDTH = 4, 6, 32


class Masked(nn.Module):
    """Cuts a batch to its longest text, and runs its layer on the tokens that a mask leaves."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, WIDTH)
        self.layer = nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, tokens, mask):
        longest = int(mask.sum(dim=-1).max())
        there = mask[:, :longest] != 0
        return self.layer(self.embedding(tokens[:, :longest])[there]).square().sum()


def batch(lengths=(5, 2, 1, 1)):
    mask = torch.zeros(ROWS, LENGTH, dtype=torch.int64)
    for row, length in enumerate(lengths):
        mask[row, :length] = 1
    return torch.zeros(ROWS, LENGTH, dtype=torch.int64), mask


class OneLayer(nn.Module):
    def __init__(self, doubles):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.doubles = doubles

    def forward(self, x):
        y = self.layer(x)
        return torch.cat([y, y]).sum() if self.doubles(self, x, y) else y.sum()


def peak_of(model, *inputs):
    return lowtide.estimate(model, inputs, optimizer="none").peak_bytes


@pytest.mark.cpu_only("steps are measured by the CPU's allocator")
def test_a_step_of_masked_tokens_takes_what_is_estimated():
    model, inputs = Masked(), batch()
    found = lowtide.estimate(model, inputs, optimizer="none", measure=True)
    gc.collect()
    base = _runtime.taken_bytes()
    model(*inputs).backward()
    model.zero_grad()
    _runtime.reset_peaks()
    model(*inputs).backward()
    held = sum(tensor.nbytes for tensor in (*model.parameters(), *inputs))
    assert found.peak_bytes == pytest.approx(_runtime.taken_peak_bytes() - base + held, rel=0.1)


def test_more_tokens_take_more():
    model = Masked()
    few, many = (lowtide.estimate(model, batch(lengths), optimizer="none").whole["activations"]
                 for lengths in ((1, 1, 1, 1), (6, 6, 6, 6)))
    assert many > 4 * few


def test_the_users_tensors_stay_as_they_are():
    class Writes(Masked):
        def forward(self, tokens, mask):
            mask[:, 0] = 0
            return super().forward(tokens + mask.any().int(), mask)

    tokens, mask = batch()
    before = mask.clone()
    lowtide.estimate(Writes(), (tokens, mask), optimizer="none")
    assert torch.equal(mask, before) and not tokens.any()


@pytest.mark.parametrize("asks, answer", [
    (lambda model, x, y: not torch.isfinite(y).all(), False),
    (lambda model, x, y: torch.isinf(y).any() or torch.isnan(y).any(), False),
    (lambda model, x, y: torch.rand([]) < 0.0, False),
    (lambda model, x, y: torch.rand(1) < 1.0, True),
    (lambda model, x, y: (x > 0).all(), True),
    (lambda model, x, y: torch.zeros_like(y).sum() == 0, True),
    (lambda model, x, y: torch.ones_like(x).cumsum(0)[-1, 0] == len(x), True),
], ids=["isfinite", "isinf", "below 0", "below 1", "inputs", "of a shape", "sums"])
def test_what_follows_from_the_batch_is_known(asks, answer):
    x = torch.ones(ROWS, WIDTH)
    assert peak_of(OneLayer(asks), x) == peak_of(OneLayer(lambda *_: answer), x)


def copy_of_activations(model, x, y):
    mask = torch.zeros(len(x), dtype=torch.bool)
    view = mask[1:]
    view.copy_(y[1:, 0] > 0)
    return mask.any()


@pytest.mark.parametrize("asks", [
    lambda model, x, y: (y > 0).any(),
    lambda model, x, y: torch.rand([]) < 0.5,
    lambda model, x, y: model.layer.weight.sum() > 0,
    copy_of_activations,
], ids=["activations", "at random", "parameters", "written over"])
def test_what_does_not_is_refused(asks):
    with pytest.raises(lowtide.InputError, match="values of tensors.*test_estimate_known_values"):
        peak_of(OneLayer(asks), torch.ones(ROWS, WIDTH))


def test_large_activations_are_finite_too():
    """More than what is computed beside the step."""
    x = torch.ones(1 << 14, WIDTH)
    asks = OneLayer(lambda model, x, y: not torch.isfinite(y).all())
    assert peak_of(asks, x) > 2 * x.nbytes


def test_inputs_without_memory_hold_nothing():
    model = OneLayer(lambda model, x, y: x.any())
    with pytest.raises(lowtide.InputError, match="not on the device meta"):
        peak_of(model, torch.ones(ROWS, WIDTH, device="meta"))
    assert peak_of(model, torch.ones(ROWS, WIDTH)) > 0


def test_random_numbers_stay_as_they_are():
    model = OneLayer(lambda model, x, y: torch.dropout(x, 0.5, True).shape[0] == 0)
    before = torch.get_rng_state()
    peak_of(model, torch.ones(ROWS, WIDTH))
    assert torch.equal(torch.get_rng_state(), before)
