"""Values that do not fit move to a disk and come back: eager bits, within the budget."""

import copy
import json
import os
import pathlib
import pickle
import random
import resource
import signal
import threading

import lowtide
import pytest
import torch
from on_device import DEVICE
from torch import nn
from torch.nn import functional as F
from wrap_cases import InThreeGraphs, built, loss_of, same, train

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

WIDTH = 128
#: Of one activation: the buffers of copies take 8 MiB, and values more.
ROWS = 4096


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        q, k, v = self.mix(x).view(-1, 64, 3, 4, WIDTH // 4).permute(2, 0, 3, 1, 4)
        a = F.dropout((q @ k.transpose(-1, -2)).softmax(-1), 0.2, self.training)
        return x + (a @ v).transpose(1, 2).reshape(x.shape)


class Stack(nn.Module):
    """Layers by name, so that a random choice of them is a random model."""

    LAYERS = {
        "linear": lambda: nn.Linear(WIDTH, WIDTH), "gelu": nn.GELU, "tanh": nn.Tanh,
        "relu": nn.ReLU, "dropout": lambda: nn.Dropout(0.2),
        "norm": lambda: nn.LayerNorm(WIDTH), "statistics": lambda: nn.BatchNorm1d(WIDTH),
        "attention": Attending,
    }

    def __init__(self, names):
        super().__init__()
        self.layers = nn.ModuleList(self.LAYERS[name]() for name in names)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.square().mean()


class Broken(InThreeGraphs):
    def __init__(self):
        super().__init__(lambda: nn.Sequential(*Stack(3 * ["linear", "relu", "dropout"]).layers))


def drawn(seed):
    """A random model that needs tens of MiB."""
    choose = random.Random(seed)
    names = [choose.choice(list(Stack.LAYERS)) for _ in range(8)]
    return lambda: Stack(["linear", "relu", *names, "linear", "dropout"])


def PLAIN():  # noqa: N802
    return Stack(6 * ["linear", "relu", "dropout"])


X = torch.randn(ROWS, WIDTH, device="cpu",
                generator=torch.Generator("cpu").manual_seed(5)).to(DEVICE)


def inputs():
    return (X,)


def wrapped(make, folder, budget, *, bandwidth="2GB/s", **options):
    offload = lowtide.Offload(folder, bandwidth=bandwidth, latency=50)
    options = {"time_limit": 0.5, **options}
    return lowtide.wrap(built(make), inputs(), budget, optimizer="sgd", offload=offload, **options)


@pytest.mark.parametrize("seed", range(5))
def test_random_models_train_as_eager_ones_within_the_budget(seed, tmp_path):
    choose = random.Random(seed)
    make = drawn(seed)
    expected = train(built(make), inputs)
    bandwidth = choose.choice(["300MB/s", "2GB/s,1GB/s", "30GB/s"])
    share = choose.choice([55, 65, 75])
    for percent in range(share, 100, 10):
        try:
            strategy = choose.choice([None, "offload"])
            model = wrapped(make, tmp_path, f"{percent}%", bandwidth=bandwidth, strategy=strategy)
            break
        except lowtide.InfeasibleError:
            continue
    assert same(train(model, inputs), expected)
    memory = model.memory
    assert memory.measured_peak <= memory.budget
    assert memory.planned_peak <= memory.budget
    assert strategy is None or memory.moved.bytes_out > 0
    assert list(tmp_path.iterdir()) == []  # the file has no name


def test_what_moved_is_said(tmp_path):
    model = wrapped(PLAIN, tmp_path, "55%", strategy="offload")
    assert model.memory.moved == type(model.memory.moved)()
    train(model, inputs)
    moved = model.memory.moved
    assert moved.bytes_out > 0 and moved.bytes_in > 0
    assert moved.wait_seconds >= 0 and 0 <= moved.hidden_seconds <= moved.copy_seconds
    text = lowtide.explain(model)
    assert str(moved) in text
    assert "moves to slower memory" in text


def test_nothing_moves_where_all_fits(tmp_path):
    moving = wrapped(PLAIN, tmp_path, "70%")  # its plans are in the store
    train(moving, inputs)
    assert moving.memory.moved.bytes_out > 0
    model = wrapped(PLAIN, tmp_path, "1GiB")
    assert same(train(model, inputs), train(built(PLAIN), inputs))
    assert model.memory.moved.bytes_out == 0
    assert "runs again" in lowtide.explain(model)
    buffers_and_a_page = (8 << 20) + 4096 if DEVICE == "cpu" else 0
    assert moving.memory.existing - model.memory.existing == buffers_and_a_page


def test_a_step_of_several_graphs(tmp_path):
    model = wrapped(Broken, tmp_path, "42MiB", strategy="offload")
    assert same(train(model, inputs, steps=4), train(built(Broken), inputs, steps=4))
    assert model.memory.moved.bytes_out > 0
    assert model.memory.measured_peak <= model.memory.budget


def accumulated(model, passes_at_once):
    """Gradients of four passes of changing sizes."""
    torch.manual_seed(4)
    for _ in range(2):
        losses = [loss_of(model(X[:ROWS - 512 * number])) for number in range(passes_at_once)]
        for loss in losses:
            loss.backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("passes_at_once", [1, 2])
def test_gradients_are_accumulated_over_passes_and_sizes(passes_at_once, tmp_path):
    model = wrapped(PLAIN, tmp_path, "150MiB")
    assert same(accumulated(model, passes_at_once), accumulated(built(PLAIN), passes_at_once))
    if passes_at_once == 1:
        small = wrapped(PLAIN, tmp_path, "60%", strategy="offload")
        assert same(accumulated(small, 1), accumulated(built(PLAIN), 1))
        loss_of(small(X)).backward()
        assert small.memory.moved.bytes_out > 0


def test_retained_graphs_are_run_again(tmp_path):
    def twice(model):
        torch.manual_seed(4)
        loss = loss_of(model(X))
        loss.backward(retain_graph=True)
        loss.backward()
        return [parameter.grad for parameter in model.parameters()]

    assert same(twice(wrapped(PLAIN, tmp_path, "60%")), twice(built(PLAIN)))


def test_the_limit_is_kept(tmp_path):
    free = wrapped(PLAIN, tmp_path, "60%", strategy="offload")
    train(free, inputs)
    limit = free.memory.moved.bytes_out // 2
    model = wrapped(PLAIN, tmp_path, "60%", offload_budget=limit)
    assert same(train(model, inputs), train(built(PLAIN), inputs))
    assert model.memory.moved.bytes_out <= limit
    with pytest.raises(lowtide.InfeasibleError):
        wrapped(PLAIN, tmp_path, "60%", strategy="offload", offload_budget="1KiB", stash=None)


def test_the_smallest_budget_that_an_error_names_is_enough(tmp_path):
    with pytest.raises(lowtide.InfeasibleError) as error:
        wrapped(PLAIN, tmp_path, "3MiB")
    smallest = error.value.smallest_budget
    assert f"({smallest} bytes)" in str(error.value)
    model = wrapped(PLAIN, tmp_path, smallest)
    assert same(train(model, inputs), train(built(PLAIN), inputs))
    assert model.memory.measured_peak <= smallest


@pytest.mark.parametrize("options, why", [
    pytest.param({"offload": "host"}, "name a folder",
                 marks=pytest.mark.cpu_only("a device has other memory than the host's")),
    ({"offload": "/no/such/folder"}, "/no/such/folder.*No such file.*choose a folder"),
    ({"offload": __file__}, "Not a directory"),
    ({"offload": 5}, "\"host\" or to a folder, not to 5"),
    ({"offload": ""}, "\"host\" or to a folder"),
    ({"offload": "/tmp", "budget": None}, "needs a budget"),
    ({"offload": "/tmp", "cuda_graph": True}, "leave out offload or cuda_graph"),
    ({"offload": "/tmp", "mode": "inductor"}, "mode=\"executor\""),
    ({"offload": "/tmp", "strategy": "chen"}, "search, which only reruns, offload"),
    ({"offload": "/tmp", "options": {"moves": 3}}, "'moves'"),
    ({"offload": "/tmp", "offload_budget": "fast"}, "\"50GiB\""),
    ({"offload": "/tmp", "offload_budget": "50%"}, "\"50GiB\""),
    ({"offload_budget": "1GiB"}, "needs offload"),
])
def test_what_cannot_be_is_refused(options, why):
    with pytest.raises(lowtide.InputError, match=why) as error:
        lowtide.wrap(built(PLAIN), inputs(), **{"budget": "60%", **options})
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("given, why", [
    ({"bandwidth": "fast"}, "\"2GB/s\""), ({"bandwidth": "2GB"}, "\"2GB/s\""),
    ({"bandwidth": "1GB/s,2GB/s,3GB/s"}, "out and in"), ({"bandwidth": "50%/s"}, "out and in"),
    ({"latency": 5}, "needs a bandwidth"), ({"bandwidth": "1GB/s", "latency": -1}, "0 or more"),
])
def test_a_speed_is_checked(given, why):
    with pytest.raises(lowtide.InputError, match=why):
        lowtide.Offload("/tmp", **given)


def test_a_folder_is_that_of_the_moment_in_which_it_was_named(tmp_path, monkeypatch):
    """Programs that make a folder for each run, and change to it, do so after that."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("values").mkdir()
    one = lowtide.Offload("values")
    two = lowtide.Offload("host", disk="values")
    named = lowtide.Offload("values" if DEVICE == "cpu" else "host", bandwidth="2GB/s")
    model = lowtide.wrap(built(PLAIN), None, "55%", optimizer="sgd", strategy="offload",
                         offload=named, time_limit=0.5)
    monkeypatch.chdir("/")
    assert one.folder == two.second.folder == str(tmp_path / "values")
    assert same(train(model, inputs), train(built(PLAIN), inputs))
    assert model.memory.moved.bytes_out > 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(lowtide.InputError, match="Permission denied"):
        wrapped(PLAIN, tmp_path, "60%")


def test_a_full_disk_is_an_error_before_the_first_step(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    wrapped(PLAIN, tmp_path, "60%")  # measures ops; files of that are larger than the limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(lowtide.Error, match=f"in the folder {tmp_path}.*ulimit -f"):
            wrapped(PLAIN, tmp_path, "60%")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files_in(folder):
    """Descriptors of this process of files without a name there."""
    for link in pathlib.Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith(f"{folder}/"):
            yield int(link.name)


def test_a_copy_that_fails_names_the_value_and_leaves_the_parameters(tmp_path):
    model = wrapped(PLAIN, tmp_path, "60%", strategy="offload")
    before = copy.deepcopy(model.state_dict())
    loss = loss_of(model(X))
    for file in files_in(tmp_path):
        os.ftruncate(file, 0)
    with pytest.raises(lowtide.Error, match=f"the value \".*\" .*file of values in {tmp_path}"):
        loss.backward()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert same(train(model, inputs), train(built(PLAIN), inputs))


def test_a_disk_is_measured_once(tmp_path):
    def said(**options):
        lines = []
        lowtide.wrap(built(PLAIN), inputs(), "60%", time_limit=0.5, offload=tmp_path,
                     report=lines.append, **options)
        return sum(line.startswith("measuring the folder") for line in lines)

    file = pathlib.Path(os.environ["XDG_CACHE_HOME"], "lowtide", "slower-memory.json")
    file.unlink(missing_ok=True)
    assert said(cache=False) == 1
    assert not file.exists()
    assert said() == 1
    assert len(json.loads(file.read_text())) == 1
    assert said() == 0
    assert said(cache="refresh") == 1
    file.write_text("[1, 2")
    assert said() == 1


def test_a_wrapped_module_is_what_it_is_without(tmp_path):
    model = wrapped(PLAIN, tmp_path, "60%")
    train(model, inputs)
    plain = pickle.loads(pickle.dumps(model))
    assert type(plain) is Stack
    assert list(model.state_dict()) == list(plain.state_dict())
    assert same(list(model.state_dict().values()), list(plain.state_dict().values()))
    assert type(copy.deepcopy(model)) is Stack


def test_ctrl_c_ends_the_planning(tmp_path):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    interrupted = threading.Event()

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        interrupted.set()

    timer = threading.Timer(3.0, interrupt)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            while not interrupted.is_set():
                wrapped(drawn(11), tmp_path, "50%", time_limit=60, cache=False)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    assert same(train(wrapped(PLAIN, tmp_path, "60%"), inputs), train(built(PLAIN), inputs))


def test_the_backend_of_torch_compile_takes_it_too(tmp_path):
    compiled = torch.compile(built(PLAIN), backend="lowtide",
                             options={"budget": "60%", "optimizer": "sgd", "time_limit": 0.5,
                                      "offload": str(tmp_path), "offload_budget": "1GiB"})
    assert same(train(compiled, inputs)[:-1], train(built(PLAIN), inputs)[:-1])


@pytest.mark.parametrize("rows, width", [(16, 64), (3000, 64), (4000, 256)])
def test_the_smallest_budget_of_a_refusal_does_and_less_does_not(tmp_path, rows, width):
    """Wherever the optimizer's state lies: the buffers of copies may take more than it does."""
    def wrapped(budget):
        model = built(lambda: nn.Sequential(*[layer for _ in range(4) for layer in (
            nn.Linear(width, width), nn.Tanh())]))
        return lowtide.wrap(model, torch.randn(rows, width), budget, offload=tmp_path,
                            optimizer=torch.optim.Adam(model.parameters()), time_limit=0.5)

    def named(budget):
        with pytest.raises(lowtide.InfeasibleError) as caught:
            wrapped(budget)
        return caught.value.smallest_budget

    smallest = named(1024)
    wrapped(smallest)
    named(int(0.95 * smallest))
