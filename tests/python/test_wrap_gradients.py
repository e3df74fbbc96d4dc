"""Gradients and results that the caller keeps, and forward passes that wait for one another."""

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from torch import nn
from torch.utils.checkpoint import checkpoint
from wrap_cases import (
    CASES,
    IMAGES,
    ROWS,
    Attention,
    Convolutions,
    Randomly,
    built,
    loss_of,
    same,
    train,
)

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


def test_gradients_accumulate():
    def accumulate(model):
        torch.manual_seed(2)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(2):
            for _ in range(3):
                loss_of(model(*IMAGES())).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
        return [p.detach() for p in model.parameters()]

    wrapped = lowtide.wrap(built(Convolutions), IMAGES(), budget="90%", time_limit=0.3)
    assert same(accumulate(wrapped), accumulate(built(Convolutions)))


def test_gradients_that_are_zeroed_and_kept():
    def train_keeping(model):
        torch.manual_seed(2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad(set_to_none=False)
            loss_of(model(*IMAGES())).backward()
            optimizer.step()
        return [p.detach() for p in model.parameters()]

    wrapped = lowtide.wrap(built(Convolutions), IMAGES(), budget="95%", time_limit=0.3)
    assert same(train_keeping(wrapped), train_keeping(built(Convolutions)))


def test_results_that_are_kept_stay():
    model = built(Attention)
    wrapped = lowtide.wrap(model, CASES["attention"][1]())
    outputs, gradients, copies = [], [], []
    for _ in range(4):
        output = wrapped(torch.randint(0, 50, (4, 12)))
        output.pow(2).mean().backward()
        outputs.append(output)
        gradients.append([p.grad for p in model.parameters()])
        copies.append(([output.detach().clone()], [p.grad.clone() for p in model.parameters()]))
        model.zero_grad()
    for output, gradient, (output_then, gradient_then) in zip(outputs, gradients, copies):
        assert same([output.detach()], output_then) and same(gradient, gradient_then)


def test_two_forward_passes_before_their_backward_passes():
    def both(model):
        torch.manual_seed(4)
        first, second = model(*IMAGES()), model(*IMAGES())
        (loss_of(first) * 2).backward()
        loss_of(second).backward()
        third, fourth = model(*IMAGES()), model(*IMAGES())
        (loss_of(third) + loss_of(fourth)).backward()
        return [p.grad for p in model.parameters()]

    wrapped = lowtide.wrap(built(Convolutions), IMAGES(), budget="2MB", time_limit=0.3)
    assert same(both(wrapped), both(built(Convolutions)))


def test_a_forward_pass_whose_result_is_dropped_holds_nothing():
    wrapped = lowtide.wrap(built(Randomly), ROWS(), budget="100%", time_limit=0.3)
    for _ in range(5):
        wrapped(*ROWS())
    (region,) = session_of(wrapped).regions
    assert len(list(region.executors)) == 1
    assert region.pending_passes == 0


def test_a_wrapped_module_within_a_checkpoint():
    class Around(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.first, self.inner = nn.Linear(20, 20), inner

        def forward(self, x):
            return checkpoint(self.inner, self.first(x), use_reentrant=False)

    def steps(model):
        torch.manual_seed(4)
        for _ in range(2):
            loss_of(model(*ROWS())).backward()
        return [p.grad for p in model.parameters()]

    models = [built(lambda: Around(Randomly())) for _ in range(2)]
    models[0].inner = lowtide.wrap(models[0].inner, time_limit=0.3)
    assert same(*map(steps, models))


def test_a_checkpoint_within_a_wrapped_module_moves_running_statistics_once():
    """As without the checkpoint; eager PyTorch runs the layer twice, and moves them twice."""
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(20, 20), nn.BatchNorm1d(20), nn.GELU())

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    model, plain = built(Checkpointed), built(Checkpointed)
    assert same(train(lowtide.wrap(model, ROWS(), time_limit=0.3), ROWS),
                train(plain.inner, ROWS))
