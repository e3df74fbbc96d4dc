"""Wrapped modules train exactly as the plain ones, within their budgets."""

import copy
import dataclasses
import io
import multiprocessing
import pickle
import threading
import warnings

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from on_device import DEVICE
from torch import nn
from wrap_cases import (
    CASES,
    IMAGES,
    ROWS,
    Convolutions,
    OwnFunction,
    Randomly,
    built,
    loss_of,
    runs_again,
    same,
    smallest,
    train,
)

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("budget", ["unlimited", "smallest"])
def test_training_is_eager_training_to_the_bit(case, budget):
    make, inputs_of = CASES[case]
    expected = train(built(make), inputs_of)
    model = built(make)
    torch.manual_seed(9)
    wrapped = (lowtide.wrap(model, inputs_of()) if budget == "unlimited"
               else smallest(model, inputs_of()))
    assert same(train(wrapped, inputs_of), expected)
    memory = wrapped.memory
    next_batch = sum(x.nbytes for x in inputs_of())  # made while the block is there
    assert memory.measured_peak - memory.outside <= memory.planned_peak + next_batch
    assert memory.budget is None or memory.planned_peak <= memory.budget


@pytest.mark.parametrize("case", ["convolutions", "attention", "rrelu"])
def test_small_budgets_run_ops_again(case):
    make, inputs_of = CASES[case]
    assert runs_again(smallest(built(make), inputs_of()))


def test_evaluation_is_eager_evaluation():
    wrapped, plain = smallest(built(Convolutions), IMAGES()), built(Convolutions)
    train(wrapped, IMAGES), train(plain, IMAGES)
    wrapped.eval(), plain.eval()
    images = IMAGES()
    with torch.no_grad():
        assert torch.equal(wrapped(*images), plain(*images))
    wrapped.train(), plain.train()
    assert same(train(wrapped, IMAGES), train(plain, IMAGES))


def test_calls_without_gradients_run_as_in_eager_code_and_are_not_traced():
    """Each length of a text that is generated would be traced otherwise, and a layer that has a
    kernel of its own there would be rounded otherwise."""
    torch.manual_seed(0)
    plain = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    wrapped = lowtide.wrap(copy.deepcopy(plain), time_limit=0.3)
    plain.eval(), wrapped.eval()
    traced = torch._dynamo.utils.counters["frames"]["total"]
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            for length in (3, 4, 5):
                x = torch.randn(2, length, 16)
                assert torch.equal(wrapped(x), plain(x))
    assert torch._dynamo.utils.counters["frames"]["total"] == traced


def test_frozen_parameters_get_no_gradients():
    def frozen():
        model = built(Convolutions)
        model.layers[0].requires_grad_(False)
        return model

    wrapped = smallest(frozen(), IMAGES())
    assert same(train(wrapped, IMAGES), train(frozen(), IMAGES))
    assert wrapped.layers[0].weight.grad is None


def test_gradient_scaler_and_hooks():
    def scaled(model):
        torch.manual_seed(2)
        seen = []
        model.head.weight.register_hook(lambda gradient: seen.append(gradient.clone()))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(DEVICE, init_scale=1024.0)
        for _ in range(2):
            scaler.scale(loss_of(model(*IMAGES()))).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return [*seen, *(p.detach() for p in model.parameters())]

    assert same(scaled(smallest(built(Convolutions), IMAGES())), scaled(built(Convolutions)))


def test_module_hooks_run_once():
    model = built(Convolutions)
    calls = []
    model.register_forward_hook(lambda *_: calls.append("after"))
    wrapped = lowtide.wrap(model)
    wrapped(*IMAGES())
    assert calls == ["after"]


def test_outputs_of_any_structure():
    @dataclasses.dataclass
    class Result:
        loss: torch.Tensor
        logits: torch.Tensor

    class Structured(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(20, 20)

        def forward(self, x, flag=None):
            y = self.linear(x)
            return {"result": Result(y.pow(2).mean(), y), "count": 3, "flag": flag}

    wrapped, plain = lowtide.wrap(built(Structured), ROWS()), built(Structured)
    rows = ROWS()
    got, expected = wrapped(*rows, flag="a"), plain(*rows, flag="a")
    assert got["count"] == 3 and got["flag"] == "a"
    assert torch.equal(got["result"].loss, expected["result"].loss)
    got["result"].loss.backward()
    expected["result"].loss.backward()
    assert same([p.grad for p in wrapped.parameters()], [p.grad for p in plain.parameters()])


def test_a_graph_break_leaves_the_rest_planned():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Sequential(nn.Linear(20, 64), nn.Dropout(0.2), nn.Tanh())
            self.second = nn.Sequential(nn.Linear(64, 20), nn.Dropout(0.2), nn.Tanh())

        def forward(self, x):
            x = self.first(x)
            torch._dynamo.graph_break()
            return self.second(x)

    wrapped = lowtide.wrap(built(Broken), budget="100%", time_limit=0.3)
    assert same(train(wrapped, ROWS), train(built(Broken), ROWS))
    assert len(session_of(wrapped).regions) == 2


def test_sizes_may_change():
    sizes = [16, 16, 7, 16, 3, 7]

    def each(model):
        torch.manual_seed(6)
        for size in sizes:
            loss_of(model(torch.randn(size, 20))).backward()
        return [p.grad for p in model.parameters()]

    alone = lowtide.wrap(built(Randomly), ROWS(), budget="90%", time_limit=0.3)
    wrapped = lowtide.wrap(built(Randomly), ROWS(), budget=alone.memory.budget, time_limit=0.3)
    assert same(each(wrapped), each(built(Randomly)))
    assert 0 < wrapped.memory.measured_peak - wrapped.memory.outside <= wrapped.memory.budget


def test_wrapping_again_wraps_the_plain_model():
    model = built(Convolutions)
    first = lowtide.wrap(model, IMAGES())
    again = lowtide.wrap(first, IMAGES(), budget="90%", time_limit=0.3)
    assert same(train(again, IMAGES), train(built(Convolutions), IMAGES))
    assert type(again).__mro__.count(type(model)) == 1 and again.memory.budget is not None


def test_a_wrapped_module_within_a_wrapped_one_is_a_part_of_its_plan():
    make = lambda: nn.Sequential(Randomly(), nn.Tanh())  # noqa: E731
    model = built(make)
    model[0] = inner = lowtide.wrap(model[0], time_limit=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outer = lowtide.wrap(model, ROWS(), budget="100%", time_limit=0.3)
        assert same(train(outer, ROWS), train(built(make), ROWS))
    assert len(session_of(outer).regions) == 1 and not session_of(inner).regions


def test_a_wrapped_module_within_torch_compile_runs_by_its_plan():
    wrapped = lowtide.wrap(built(Randomly), ROWS())
    runs = session_of(wrapped).runs
    compiled = torch.compile(nn.Sequential(wrapped, nn.Identity()), backend="eager")
    assert same(train(compiled, ROWS, steps=1), train(built(Randomly), ROWS, steps=1))
    assert session_of(wrapped).runs == runs + 1


def test_a_copy_is_the_plain_model():
    model = built(Convolutions)
    wrapped = lowtide.wrap(model, IMAGES())
    assert type(copy.deepcopy(wrapped)) is Convolutions
    assert type(pickle.loads(pickle.dumps(wrapped))) is Convolutions
    assert isinstance(wrapped, Convolutions)
    assert wrapped.state_dict().keys() == model.state_dict().keys()
    file = io.BytesIO()
    torch.save(wrapped.state_dict(), file)
    averaged = torch.optim.swa_utils.AveragedModel(wrapped)
    averaged.update_parameters(wrapped)
    assert type(averaged.module) is Convolutions


def test_parameters_and_dtypes_may_be_replaced():
    wrapped, plain = lowtide.wrap(built(Randomly), ROWS()), built(Randomly)
    for model in (wrapped, plain):
        torch.manual_seed(8)
        model.first.weight = nn.Parameter(0.1 * torch.randn(64, 20))
    assert same(train(wrapped, ROWS), train(plain, ROWS))
    doubles = lambda: (torch.randn(16, 20, dtype=torch.float64),)  # noqa: E731
    wrapped, plain = lowtide.wrap(built(OwnFunction), ROWS()), built(OwnFunction)
    assert same(train(wrapped.double(), doubles), train(plain.double(), doubles))


def test_threads_take_turns():
    wrapped, plain = lowtide.wrap(built(OwnFunction), ROWS()), built(OwnFunction)
    rows = [torch.randn(16, 20) for _ in range(4)]
    expected = [plain(x).detach() for x in rows]
    got = [None] * len(rows)

    def run(index):
        got[index] = wrapped(rows[index]).detach()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(rows))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert same(got, expected)


def test_an_evaluation_in_another_thread_leaves_passes_their_memory():
    rows = torch.randn(64, 20)
    wrapped, plain = lowtide.wrap(built(OwnFunction), rows), built(OwnFunction)
    expected, ended, wrong = plain(rows).detach(), threading.Event(), []

    def evaluate():
        while not ended.is_set():
            with torch.no_grad():
                wrong.extend([1] * (not torch.equal(wrapped(rows), expected)))

    thread = threading.Thread(target=evaluate)
    thread.start()
    try:
        for _ in range(100):
            wrapped(rows).sum().backward()
            wrapped.zero_grad()
    finally:
        ended.set()
        thread.join()
    assert not wrong


@pytest.mark.cpu_only("PyTorch refuses backward passes in a fork once autograd has threads")
@pytest.mark.skipif(torch.version.cuda is not None, reason="in builds for CUDA, tracing starts "
                    "threads of autograd, which PyTorch refuses in a fork")
def test_a_process_that_is_forked_trains_on():
    wrapped, plain = lowtide.wrap(built(OwnFunction), ROWS()), built(OwnFunction)
    train(wrapped, ROWS), train(plain, ROWS)
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: theirs.send([x.numpy() for x in train(wrapped, ROWS)]))
    child.start()
    theirs.close()
    assert ours.poll(60)
    expected = train(plain, ROWS)
    assert same([torch.from_numpy(x) for x in ours.recv()], expected)
    child.join()
    assert same(train(wrapped, ROWS), expected)


def test_explanations():
    wrapped = smallest(built(Convolutions), IMAGES())
    text = lowtide.explain(wrapped)
    assert "The peak is" in text and "runs again" in text
