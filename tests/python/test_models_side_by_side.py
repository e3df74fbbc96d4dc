"""Several wrapped models in one program: each has a budget of its own, and counts what is its."""

import gc
import warnings

import lowtide
import pytest
import torch
from lowtide import _runtime
from lowtide.pytorch.autograd.taken_bytes import TakenBytes
from torch import nn
from wrap_cases import built, same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

ROWS, WIDTH = 256, 48


@pytest.fixture(autouse=True)
def nothing_of_other_tests():
    """What they left would be taken off where it goes within a step."""
    gc.collect()


def layers(width_in=WIDTH, width_out=WIDTH):
    return nn.Sequential(nn.Linear(width_in, WIDTH), nn.Tanh(),
                         *[layer for _ in range(5) for layer in (nn.Linear(WIDTH, WIDTH),
                                                                 nn.Tanh())],
                         nn.Linear(WIDTH, width_out))


class Loss(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return self.body(x).square().mean()


def apart():
    return [Loss(layers()), Loss(layers())]


def with_one_trunk():
    trunk = layers()
    return [Loss(nn.Sequential(trunk, nn.Linear(WIDTH, outputs))) for outputs in (4, 1)]


def optimizer_of(models):
    return torch.optim.SGD(dict.fromkeys(p for model in models for p in model.parameters()), lr=0.1)


def steps_at_once(models, optimizer, count=4):
    """Losses and parameters of steps in which the pass of each waits for those of the others, and
    what was measured in each."""
    x = torch.ones(ROWS, WIDTH)
    left, measured = [], []
    for _ in range(count):
        loss = sum(model(x) for model in models)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        left.append(loss.detach())
        measured.append([model.memory for model in models if hasattr(model, "memory")])
        del loss
    return [*left, *(p.detach() for model in models for p in model.parameters())], measured


@pytest.mark.parametrize("make", [apart, with_one_trunk])
def test_passes_of_another_model_are_no_other_code(make):
    """The first step exceeded its budget by the other model's block."""
    models, x = built(make), torch.ones(ROWS, WIDTH)
    optimizer = optimizer_of(models)
    budgets = [lowtide.wrap(model, x, "75%", optimizer=optimizer, time_limit=0.3).memory.budget
               for model in models]
    wrapped = [lowtide.wrap(model, x, budget, optimizer=optimizer, time_limit=0.3)
               for model, budget in zip(models, budgets, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        got, measured = steps_at_once(wrapped, optimizer)
    assert all(memory.measured_peak <= memory.budget for step in measured for memory in step)
    plain = built(make)
    assert same(got, steps_at_once(plain, optimizer_of(plain))[0])


def adversaries(wrap):
    """Losses and parameters of a generator and a discriminator after some steps."""
    generator, discriminator = built(lambda: [layers(16), layers(WIDTH, 1)])
    optimizers = [optimizer_of([model]) for model in (generator, discriminator)]
    given = torch.ones(ROWS, 16), torch.ones(ROWS, WIDTH)
    generator, discriminator = map(wrap, (generator, discriminator), given, optimizers)
    left = []
    for _ in range(4):
        optimizers[1].zero_grad()
        fake = generator(given[0]).detach()
        (discriminator(fake).mean() - discriminator(given[1]).mean()).backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        loss = -discriminator(generator(given[0])).mean()
        loss.backward()
        optimizers[0].step()
        left.append(loss.detach())
        del fake, loss
    return [*left, *(p.detach() for m in (generator, discriminator) for p in m.parameters())]


def test_a_generator_does_not_count_what_its_discriminator_takes():
    wrapped = []

    def wrap(model, x, optimizer):
        wrapped.append(lowtide.wrap(model, x, "100%", optimizer=optimizer, time_limit=0.3))
        return wrapped[-1]

    got = adversaries(wrap)
    assert same(got, adversaries(lambda model, *_: model))
    results = ROWS * WIDTH * torch.float32.itemsize
    generator = wrapped[0].memory
    assert generator.measured_peak <= generator.planned_peak + 3 * results


class Gradients:
    """Of parameters by their identities, beside blocks."""

    def __init__(self, tracked=(), beside=()):
        self.tracked, self.sizes = set(tracked), dict(beside)

    def tracks(self, leaf):
        return leaf in self.tracked

    def beside(self):
        return dict(self.sizes)


@pytest.fixture
def two():
    """With the bytes of their blocks, which tests change."""
    blocks = [0, 0]
    device = str(torch.get_default_device())
    found = [TakenBytes(lambda: blocks[0], Gradients([1, 2])),
             TakenBytes(lambda: blocks[1], Gradients([2, 3]))]
    for taken in found:
        taken.device = device
    _runtime.reset_peaks(device)
    with found[0].own():  # what another test has not ended is over
        pass
    return *found, blocks


def test_only_what_is_left_of_a_pass_counts_for_others(two):
    one, other, blocks = two
    one.reset()
    before = one.now
    with other.own():
        scratch = torch.ones(100_000)
        block, result = torch.ones(50_000), torch.ones(1000)
        blocks[1] = block.nbytes
        del scratch
    assert one.peak - before == one.now - before == result.nbytes
    code = torch.ones(2000)
    del code
    assert one.peak - before == result.nbytes + 8000


def test_a_pass_of_ones_own_counts_as_a_whole(two):
    one, _, _ = two
    one.reset()
    before = one.now
    with one.own():
        scratch = torch.ones(100_000)
        del scratch
    assert one.peak - before == 400_000 and one.now == before


def test_gradients_of_others_count_where_they_may_be_ones_own(two):
    """Those of the parameter 2 may be of both."""
    one, other, _ = two
    one.reset()
    before = one.now
    with other.own():
        shared, apart = torch.ones(1000), torch.ones(5000)
    other._gradients.sizes |= {2: shared.nbytes, 3: apart.nbytes}
    assert one.peak - before == one.now - before == shared.nbytes


def test_what_a_session_held_that_ends_counts_for_no_other(two):
    one, _, _ = two
    held = torch.ones(100_000)
    ended = TakenBytes(lambda: 400_000, Gradients())
    ended.device = one.device
    one.reset()
    before = one.now
    del ended, held
    assert one.peak == one.now == before


def test_what_is_captured_counts_for_its_session_alone(two):
    one, other, _ = two
    one.reset()
    before = one.now
    other.capture()
    traced = torch.ones(100_000)
    del traced
    with other.own():
        pass
    assert one.peak == before
    assert other.peak - other.now == 400_000
