"""What surrounds a training may be out of order: its numbers, the files and processes around it."""

import copy
import math
import os
import resource

import lowtide
import pytest
import torch
from differential_options import bits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from wrap_cases import built

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

ROWS, WIDTH = 64, 32


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(layer for _ in range(4) for layer in (
            nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.GELU(), nn.Dropout(0.1))))

    def forward(self, x):
        return self.layers(x).square().mean()


def pair():
    """A model within a budget that makes ops run again, and the same one without."""
    model = built(Model)
    eager = copy.deepcopy(model)
    return lowtide.wrap(model, torch.randn(ROWS, WIDTH), "80%", time_limit=0.3), eager


def left_by(model, batches):
    """The bits that steps leave; the same random numbers in each call."""
    torch.manual_seed(3)
    optimizer = torch.optim.Adam(model.parameters())
    found = []
    for x in batches:
        loss = model(x)
        loss.backward()
        optimizer.step()
        found += map(bits, [loss, *(p.grad for p in model.parameters())])
        optimizer.zero_grad()
    return [*found, *map(bits, model.state_dict().values())]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 3e38])
def test_numbers_that_are_none_pass_through_as_in_eager(number):
    batches = [torch.randn(ROWS, WIDTH) for _ in range(3)]
    batches[1][5, 7] = number
    planned, eager = pair()
    assert left_by(planned, batches) == left_by(eager, batches)


@pytest.mark.cpu_only("workers of a data loader are forked")
def test_workers_of_a_data_loader_are_forked_while_a_model_is_planned():
    planned, eager = pair()
    batches = [torch.randn(ROWS, WIDTH) for _ in range(2)]
    data = DataLoader(TensorDataset(torch.cat(batches)), ROWS, num_workers=1, timeout=60,
                      multiprocessing_context="fork")
    assert left_by(planned, (x for x, in data)) == left_by(eager, batches)


@pytest.mark.cpu_only("a device is not for the children of a process")
def test_a_forked_process_trains_on_by_the_same_plan():
    planned, eager = pair()
    batches = [torch.randn(ROWS, WIDTH) for _ in range(2)]
    wanted = left_by(eager, batches)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = int(left_by(planned, batches) != wanted)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert left_by(planned, batches) == wanted


def test_few_files_may_be_open():
    """As by `ulimit -n`."""
    used = max(map(int, os.listdir("/proc/self/fd")))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 8, limits[1]))
    try:
        planned, eager = pair()
        batches = [torch.randn(ROWS, WIDTH) for _ in range(2)]
        got = left_by(planned, batches)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert got == left_by(eager, batches)


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        parts = self.mix(x).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(*parts, is_causal=True).square().mean()


def test_kernels_of_attention_are_those_that_are_allowed_at_a_call():
    x, eager = torch.randn(4, 16, WIDTH), built(Attending)
    model = lowtide.wrap(copy.deepcopy(eager), x, time_limit=0.3)

    def gradient_of(model):
        model.zero_grad()
        model(x).backward()
        return model.mix.weight.grad

    def by_math(model):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return gradient_of(model)

    assert not torch.equal(by_math(eager), gradient_of(eager))
    for gradient in (gradient_of, by_math, gradient_of):
        assert torch.equal(gradient(model), gradient(eager))
