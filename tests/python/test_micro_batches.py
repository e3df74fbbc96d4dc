"""Parts of a batch whose gradients add up to that of the whole, by what counts in its loss."""

import copy
import random

import lowtide
import pytest
import torch
from on_device import DEVICE
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

WORDS = 17


class Language(nn.Module):
    """The mean over the tokens that are not ignored, as of models for text."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, 8), nn.Linear(8, WORDS)

    def forward(self, tokens, labels):
        return F.cross_entropy(self.head(self.embed(tokens)).flatten(0, 1), labels.flatten())


def model():
    torch.manual_seed(0)
    return Language().double().to(DEVICE)


def batch(seed, rows, time):
    """Labels of which each row counts another number, some none at all."""
    draw = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    tokens, labels = torch.randint(0, WORDS, (2, rows, time), generator=generator, device="cpu")
    for row in range(rows):
        labels[row, draw.choice([0, 0, 1, draw.randrange(time + 1), time]):] = -100
    labels[draw.randrange(rows), 0] = 3  # one counts at least
    return tokens.to(DEVICE), labels.to(DEVICE)


def gradients(of):
    return [parameter.grad for parameter in of.parameters()]


def require_the_same(ours, theirs):
    for a, b in zip(gradients(ours), gradients(theirs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_parts_have_the_gradient_of_the_batch(seed):
    rows, time = random.Random(seed).randint(2, 9), random.Random(-seed).randint(1, 6)
    tokens, labels = batch(seed, rows, time)
    whole, parted = model(), model()
    loss = whole(tokens, labels)
    loss.backward()
    total = 0.0
    for part in lowtide.micro_batches((tokens, labels), random.Random(seed).randint(1, rows),
                                      labels):
        share = parted(*part.inputs) * part.weight
        share.backward()
        total += share.item()
    assert total == pytest.approx(loss.item(), rel=1e-12)
    require_the_same(parted, whole)


def test_a_planned_model_within_a_budget():
    tokens, labels = batch(1, 8, 6)
    labels[2:4] = -100
    whole, own = model(), model()
    whole(tokens, labels).backward()
    parts = lowtide.micro_batches({"tokens": tokens, "labels": labels}, 4, labels)
    assert len(parts) == 3  # the second one counts nothing
    planned = lowtide.wrap(own, parts[0].inputs, "90%", optimizer="sgd", time_limit=0.3)
    for part in parts:
        (planned(**part.inputs) * part.weight).backward()
    require_the_same(own, whole)


def test_without_targets_rows_count_alike():
    torch.manual_seed(0)
    whole, x = nn.Linear(3, 2).double(), torch.randn(7, 3, dtype=torch.float64)
    parted = copy.deepcopy(whole)
    whole(x).square().mean().backward()
    parts = lowtide.micro_batches(x, 3)
    assert [len(part.inputs) for part in parts] == [2, 2, 3]
    for part in parts:
        (parted(part.inputs).square().mean() * part.weight).backward()
    require_the_same(parted, whole)


def test_what_has_no_rows_is_in_each_part():
    table = torch.arange(3)
    parts = lowtide.micro_batches({"x": torch.arange(8).view(4, 2), "table": table, "name": "a"}, 2)
    assert all(part.inputs["table"] is table and part.inputs["name"] == "a" for part in parts)
    assert torch.equal(torch.cat([part.inputs["x"] for part in parts]), torch.arange(8).view(4, 2))


def test_another_number_may_be_ignored():
    labels = torch.tensor([[0, 1], [0, 0], [2, 3]])
    parts = lowtide.micro_batches(labels, 3, labels, ignore_index=0)
    assert [part.weight for part in parts] == [1 / 3, 2 / 3]


def test_a_batch_in_which_nothing_counts_has_no_parts():
    labels = torch.full((4, 2), -100)
    assert lowtide.micro_batches(labels, 2, labels) == []


@pytest.mark.parametrize("inputs, count, targets, message", [
    (torch.zeros(3), 4, None, "3 rows has no 4 parts"),
    (torch.zeros(3), 0, None, "count"),
    (torch.tensor(1.0), 1, None, "no tensor with rows"),
    (torch.zeros(3, 2), 2, torch.zeros(6), "a row for each of the 3"),
    (torch.zeros(3, 2), 2, [1, 2, 3], "a row for each of the 3"),
])
def test_what_cannot_be_divided_is_refused(inputs, count, targets, message):
    with pytest.raises(lowtide.InputError, match=message):
        lowtide.micro_batches(inputs, count, targets)
