"""Wrapped modules and estimates that several threads use at the same time."""

import copy
import functools
import logging
import random
import sys
import threading
import time
import traceback

import lowtide
import pytest
import torch
from lowtide.pytorch.capture import eager_kernels
from lowtide.pytorch.dynamo import transformers_masks
from torch import nn

pytestmark = [pytest.mark.usefixtures("own_cache", "one_thread"), pytest.mark.cpu_only("threads")]

THREADS = 4


@pytest.fixture
def quick_switches():
    """Threads lose the interpreter at almost every step of theirs."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(work):
    """``work(number)`` in each; the errors of all."""
    errors = []

    def run(number):
        try:
            work(number)
        except BaseException:
            errors.append(traceback.format_exc())

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.BatchNorm1d(16, track_running_stats=False),
                         nn.Linear(16, 8))


def gradients(model, x):
    return torch.autograd.grad(model(x).square().sum(), list(model.parameters()))


def test_threads_that_trace_other_sizes_have_the_gradients_of_eager(quick_switches):
    plain = layers()
    model = lowtide.wrap(copy.deepcopy(plain), time_limit=0.1, verbose=False)
    sizes = range(3, 3 + 3 * THREADS)
    inputs = {rows: torch.randn(rows, 8) for rows in sizes}
    expected = {rows: gradients(plain, x) for rows, x in inputs.items()}
    got = {}

    def train(number):
        for rows in sizes[number::THREADS]:
            got[rows] = gradients(model, inputs[rows])

    for rows in sizes[:2]:  # Dynamo leaves the size open from now on
        gradients(model, inputs[rows])
    assert in_threads(train) == []
    for rows in sizes:
        assert all(map(torch.equal, got[rows], expected[rows])), rows


def test_threads_that_trace_one_new_size_trace_it_once(quick_switches):
    model = lowtide.wrap(layers(), time_limit=0.1, verbose=False)
    for rows in (3, 4):
        gradients(model, torch.randn(rows, 8))
    planned = len(lowtide.pytorch.wrap.session_of(model).regions)
    together = threading.Barrier(THREADS)

    def train(_):
        together.wait()
        gradients(model, torch.randn(20, 8))

    assert in_threads(train) == []
    assert len(lowtide.pytorch.wrap.session_of(model).regions) == planned + 1


def shared_state():
    """What tracing exchanges, as all threads see it."""
    kernels = {op: dict(op.py_kernels) for op in (torch.ops.aten.dropout.default,
                                                  torch.ops.aten.lstm.input,
                                                  torch.ops.aten.upsample_nearest2d.vec)}
    fake = torch._subclasses.FakeTensorMode
    return (kernels, fake._dispatch_impl, fake._cached_dispatch_impl,
            torch.compiler._is_compiling_flag, torch.is_anomaly_enabled(),
            logging.getLogger("torch._dynamo").level)


def test_what_tracing_exchanges_is_put_back_whatever_traces_at_the_same_time(quick_switches):
    before = shared_state()
    example = torch.randn(4, 8)

    def trace(number):
        for _ in range(2):
            if number % 2:
                lowtide.capture(layers(), example)
            else:
                lowtide.estimate(layers(), example, measure=False)
            with eager_kernels():
                time.sleep(0)

    assert in_threads(trace) == []
    assert shared_state() == before


def test_threads_substitute_functions_of_transformers_once(monkeypatch):
    pytest.importorskip("transformers.masking_utils")
    substituted = []

    @functools.cache
    def substitute():
        time.sleep(0.01)
        substituted.append(threading.get_ident())

    def call(number):
        with transformers_masks.known_masks(lambda x: x, (), {}):
            pass

    monkeypatch.setattr(transformers_masks, "_substitute", substitute)
    assert in_threads(call) == []
    assert len(substituted) == 1


def test_threads_see_the_masks_of_their_own_call(quick_switches):
    pytest.importorskip("transformers.masking_utils")

    def forward(input_ids, attention_mask):
        pass

    def call(number):
        draws = random.Random(number)
        for _ in range(50):
            padded = draws.random() < 0.5
            mask = torch.ones(2, 3)
            mask[0, 0] = not padded
            with transformers_masks.known_masks(forward, (mask, mask), {}):
                time.sleep(0)
                assert transformers_masks._CALL.unpadded != padded

    assert in_threads(call) == []
    assert not transformers_masks._CALL.is_known


def test_a_fake_call_leaves_transformers_as_it_is_for_other_threads():
    masks = pytest.importorskip("transformers.masking_utils")
    seen = []

    def ask():
        seen.append(masks.find_packed_sequence_indices(torch.tensor([[0, 1, 0, 1]])))

    with transformers_masks.known_masks_of_fake_call(
            lambda input_ids: None, (torch.ones(1, 4),), {}):
        ask()
        other = threading.Thread(target=ask)
        other.start()
        other.join()
    assert seen[0] is None
    assert seen[1].tolist() == [[0, 0, 1, 1]]


def test_what_the_program_prints_meanwhile_is_printed(quick_switches, capsys):
    """A model that prints is silent while it is planned, and no other thread is."""
    class Talks(nn.Linear):
        def forward(self, x):
            torch._dynamo.graph_break()
            print("the model")
            return super().forward(x)

    output, said = sys.stdout, []

    def plan(number):
        lowtide.wrap(Talks(8, 8), torch.randn(4, 8), time_limit=0.1, verbose=False,
                     report=said.append)

    over = threading.Event()

    def talk():
        while not over.wait(0.01):
            print("the program")

    talker = threading.Thread(target=talk)
    talker.start()
    try:
        assert in_threads(plan) == []
    finally:
        over.set()
        talker.join()
    assert sys.stdout is output and said
    lines = capsys.readouterr().out.splitlines()
    assert lines.count("the program") > 1 and "the model" not in lines
