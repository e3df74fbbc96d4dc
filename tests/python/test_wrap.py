"""Wrapped modules train exactly as the plain ones, within their budgets."""

import collections
import copy
import dataclasses
import io
import pickle
import threading

import lowtide
import pytest
import torch
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("own_cache")


class Convolutions(nn.Module):
    """Batch norm with statistics, in-place activations, dropout."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList()
        for channels in (3, 8, 8):
            self.layers += [nn.Conv2d(channels, 8, 3, padding=1), nn.BatchNorm2d(8),
                            nn.ReLU(inplace=True), nn.Dropout(0.2)]
        self.head = nn.Linear(8 * 16 * 16, 5)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x.flatten(1))


class Attention(nn.Module):
    """Views, softmax, dropout in the middle of saved values."""

    def __init__(self, size=32, heads=4):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(50, size)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2))
        self.mix, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.head = nn.Linear(size, 50, bias=False)
        self.head.weight = self.embed.weight  # tied

    def forward(self, tokens):
        x = self.embed(tokens)
        b, t, d = x.shape
        q, k, v = self.mix(self.norms[0](x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.dropout((q @ k.transpose(-1, -2)).softmax(-1), 0.3, self.training)
        x = x + F.dropout(self.out((a @ v).transpose(1, 2).reshape(b, t, d)), 0.3, self.training)
        return self.head(self.norms[1](x))


class Randomly(nn.Module):
    """Leaky slopes that are drawn anew for each element."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(20, 64), nn.Linear(64, 20)

    def forward(self, x):
        for _ in range(3):
            x = self.second(F.rrelu(self.first(x), training=self.training))
        return x.sum(1)


class Twice(nn.Module):
    """One batch norm that sees two batches in a step, so that its statistics move twice."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(20, 20), nn.BatchNorm1d(20), nn.Dropout(0.1), nn.Tanh())

    def forward(self, x):
        return self.inner(self.inner(x))


class InputChanged(nn.Module):
    """Writes into its own input, and returns a view of another one."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(20, 20)

    def forward(self, x, other):
        y = self.linear(x.clone())
        x.mul_(2)
        return y * other.view(-1, 20), other.t()


class Halved(nn.Module):
    """Convolution and matrix product under autocast."""

    def __init__(self):
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 8, 3), nn.Linear(8 * 14 * 14, 5)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = self.linear(F.relu(self.conv(x)).flatten(1))
        return x.float()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(context, gradient):
        return 3 * context.saved_tensors[0] ** 2 * gradient


class OwnFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(20, 20)

    def forward(self, x):
        with torch.no_grad():
            scale = x.abs().mean()
        return Cube.apply(self.linear(x)) * scale


class Indexed(nn.Module):
    """Indexing with holes, and interpolation."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.register_buffer("picked", torch.tensor([3, 1, 1, 7]))

    def forward(self, x):
        x = self.conv(x)[:, :, self.picked]
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


IMAGES = lambda: (torch.randn(4, 3, 16, 16),)  # noqa: E731
ROWS = lambda: (torch.randn(16, 20),)  # noqa: E731
CASES = {
    "convolutions": (Convolutions, IMAGES),
    "attention": (Attention, lambda: (torch.randint(0, 50, (4, 12)),)),
    "rrelu": (Randomly, ROWS),
    "twice": (Twice, ROWS),
    "input changed": (InputChanged, lambda: (torch.randn(16, 20), torch.randn(16, 20))),
    "autocast": (Halved, IMAGES),
    "own function": (OwnFunction, ROWS),
    "indexed": (Indexed, IMAGES),
    "no parameters": (lambda: nn.Sequential(nn.Dropout(0.3), nn.Tanh()),
                      lambda: (torch.randn(16, 20, requires_grad=True),)),
}


def loss_of(output):
    if isinstance(output, (tuple, list)):
        return sum(loss_of(part) for part in output)
    return output.float().pow(2).mean()


def train(model, inputs_of, steps=3, seed=3):
    """Everything that a few steps leave behind."""
    torch.manual_seed(seed)
    parameters = list(model.parameters()) or [nn.Parameter(torch.zeros(1))]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    left = []
    for _ in range(steps):
        inputs = inputs_of()
        loss = loss_of(model(*inputs))
        if loss.requires_grad:
            loss.backward()
        left += [loss.detach().clone(), *[x.detach().clone() for x in inputs]]
        left += [x.grad.clone() for x in (*parameters, *inputs) if x.grad is not None]
        optimizer.step()
        optimizer.zero_grad()
        del loss  # it holds the inputs and their gradients
    left += [value.detach().clone() for value in model.state_dict().values()]
    return [*left, torch.get_rng_state()]


def same(one, other):
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other))


def built(make, seed=0):
    torch.manual_seed(seed)
    return make()


def leanest(model, inputs, **options):
    """The model within nearly the smallest budget that a plan is found for."""
    for percent in (60, 70, 80, 90, 100):
        try:
            return lowtide.wrap(model, inputs, budget=f"{percent}%", time_limit=1, **options)
        except lowtide.InfeasibleError:
            continue
    raise AssertionError("no plan even with all of the memory")


def runs_again(model):
    from lowtide.pytorch.wrap import session_of
    session = session_of(model)
    ran = collections.Counter()
    for region in session.regions:
        ran.update(a[1] for a in session.plan_for(region).actions if a[0] == "run")
    return any(count > 1 for count in ran.values())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("budget", ["unlimited", "leanest"])
def test_training_is_eager_training_to_the_bit(case, budget):
    make, inputs_of = CASES[case]
    expected = train(built(make), inputs_of)
    model = built(make)
    torch.manual_seed(9)
    wrapped = (lowtide.wrap(model, inputs_of()) if budget == "unlimited"
               else leanest(model, inputs_of()))
    assert same(train(wrapped, inputs_of), expected)
    memory = wrapped.memory
    assert memory.measured_peak - memory.outside <= memory.planned_peak
    assert memory.budget is None or memory.planned_peak <= memory.budget


@pytest.mark.parametrize("case", ["convolutions", "attention", "rrelu"])
def test_small_budgets_run_ops_again(case):
    make, inputs_of = CASES[case]
    assert runs_again(leanest(built(make), inputs_of()))


def test_wrapping_changes_nothing():
    model = built(Convolutions)
    before = copy.deepcopy(model.state_dict())
    torch.manual_seed(5)
    state = torch.get_rng_state()
    lowtide.wrap(model, torch.randn(4, 3, 16, 16, generator=torch.Generator()), budget="90%",
                 time_limit=1)
    assert same(list(before.values()), list(model.state_dict().values()))
    assert torch.equal(state, torch.get_rng_state())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_budget_that_cannot_be_met_leaves_the_model():
    model = built(Convolutions)
    inputs = IMAGES()
    with pytest.raises(lowtide.InfeasibleError, match="smallest budget"):
        lowtide.wrap(model, inputs, budget=1000)
    with pytest.raises(lowtide.InfeasibleError, match="No plan of any kind"):
        lowtide.wrap(model, inputs, budget="50%")
    assert type(model) is Convolutions
    assert same(train(model, IMAGES), train(built(Convolutions), IMAGES))


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

    wrapped = lowtide.wrap(built(Convolutions), IMAGES(), budget="90%", time_limit=1)
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

    wrapped = lowtide.wrap(built(Convolutions), IMAGES(), budget="95%", time_limit=1)
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

    wrapped = lowtide.wrap(built(Convolutions), IMAGES(), budget="2MB", time_limit=1)
    assert same(both(wrapped), both(built(Convolutions)))


def test_a_forward_pass_whose_result_is_dropped_holds_nothing():
    wrapped = lowtide.wrap(built(Randomly), ROWS(), budget="100%", time_limit=1)
    from lowtide.pytorch.wrap import session_of
    for _ in range(5):
        wrapped(*ROWS())
    (region,) = session_of(wrapped).regions
    assert len(list(region.executors)) == 1
    assert region.open_flights == 0


def test_evaluation_is_eager_evaluation():
    wrapped, plain = leanest(built(Convolutions), IMAGES()), built(Convolutions)
    train(wrapped, IMAGES), train(plain, IMAGES)
    wrapped.eval(), plain.eval()
    images = IMAGES()
    with torch.no_grad():
        assert torch.equal(wrapped(*images), plain(*images))
    wrapped.train(), plain.train()
    assert same(train(wrapped, IMAGES), train(plain, IMAGES))


def test_frozen_parameters_get_no_gradients():
    def frozen():
        model = built(Convolutions)
        model.layers[0].requires_grad_(False)
        return model

    wrapped = leanest(frozen(), IMAGES())
    assert same(train(wrapped, IMAGES), train(frozen(), IMAGES))
    assert wrapped.layers[0].weight.grad is None


def test_gradient_scaler_and_hooks():
    def scaled(model):
        torch.manual_seed(2)
        seen = []
        model.head.weight.register_hook(lambda gradient: seen.append(gradient.clone()))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for _ in range(2):
            scaler.scale(loss_of(model(*IMAGES()))).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return [*seen, *(p.detach() for p in model.parameters())]

    assert same(scaled(leanest(built(Convolutions), IMAGES())), scaled(built(Convolutions)))


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

    wrapped = lowtide.wrap(built(Broken), budget="100%", time_limit=1)
    assert same(train(wrapped, ROWS), train(built(Broken), ROWS))
    from lowtide.pytorch.wrap import session_of
    assert len(session_of(wrapped).regions) == 2


def test_sizes_may_change():
    sizes = [16, 16, 7, 16, 3, 7]

    def each(model):
        torch.manual_seed(6)
        for size in sizes:
            loss_of(model(torch.randn(size, 20))).backward()
        return [p.grad for p in model.parameters()]

    alone = lowtide.wrap(built(Randomly), ROWS(), budget="90%", time_limit=1)
    wrapped = lowtide.wrap(built(Randomly), ROWS(), budget=alone.memory.budget, time_limit=1)
    assert same(each(wrapped), each(built(Randomly)))
    assert 0 < wrapped.memory.measured_peak - wrapped.memory.outside <= wrapped.memory.budget


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


def test_changing_a_parameter_in_between_is_noticed():
    wrapped = lowtide.wrap(built(Randomly), ROWS())
    loss = loss_of(wrapped(*ROWS()))
    with torch.no_grad():
        wrapped.second.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_changing_a_result_in_between_is_noticed():
    model = nn.Sequential(nn.Linear(20, 20), nn.Sigmoid())
    output = lowtide.wrap(model, ROWS())(*ROWS())
    loss = output.sum()
    with torch.no_grad():
        output.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


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


def test_the_backend_of_torch_compile():
    model = built(Convolutions)
    compiled = torch.compile(model, backend="lowtide",
                             options={"budget": "90%", "time_limit": 1.0})
    plain = built(Convolutions)
    train(compiled, IMAGES), train(plain, IMAGES)
    assert same(list(model.state_dict().values()), list(plain.state_dict().values()))


def test_gradients_accumulate_by_torch_compile():
    def accumulate(model):
        torch.manual_seed(2)
        for _ in range(3):
            loss_of(model(*IMAGES())).backward()
        return [p.grad for p in model.parameters()]

    compiled = torch.compile(built(Convolutions), backend="lowtide", options={"budget": "2MB"})
    assert same(accumulate(compiled), accumulate(built(Convolutions)))


def test_an_unknown_option_of_torch_compile():
    compiled = torch.compile(built(Randomly), backend="lowtide", options={"bugdet": "2MB"})
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="no option 'bugdet'"):
        compiled(*ROWS())


def test_misuse_is_named():
    with pytest.raises(lowtide.InputError, match="torch.nn.Module"):
        lowtide.wrap(lambda x: x)
    with pytest.raises(lowtide.InputError, match="optimizer"):
        lowtide.wrap(built(Randomly), ROWS(), budget="90%", optimizer="adm")
    with pytest.raises(lowtide.InputError, match="budget"):
        lowtide.wrap(built(Randomly), ROWS(), budget="many")
    with pytest.raises(lowtide.InputError, match="not wrapped"):
        lowtide.explain(built(Randomly))


def test_another_device_is_refused():
    model = nn.Linear(4, 4, device="meta")
    with pytest.raises(lowtide.InputError, match="on the device meta"):
        lowtide.wrap(model, torch.empty(2, 4, device="meta"))


def test_explanations():
    wrapped = leanest(built(Convolutions), IMAGES())
    text = lowtide.explain(wrapped)
    assert "The peak is" in text and "runs again" in text


class BrokenInALoop(torch.nn.Module):
    """Dynamo gives up a function with a graph break in a loop that it cannot unroll."""

    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x):
        for part in self.parts:
            x = part(x)
            torch._dynamo.graph_break()
        return x


def test_a_model_that_runs_without_a_plan_says_so():
    wrapped = lowtide.wrap(built(BrokenInALoop), budget="100%", time_limit=1)
    with pytest.warns(UserWarning, match="BrokenInALoop ran without a plan"):
        wrapped(torch.randn(3, 4))
