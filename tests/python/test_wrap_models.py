"""Models as people bring them, of PyTorch's own layers: eager's bits within the budget."""

import copy
import dataclasses

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from on_device import DEVICE
from sweep import sweep
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint
from wrap_cases import (
    IMAGES,
    ROWS,
    built,
    loss_of,
    require_eager_bits_within_the_budget,
    same,
    smallest,
    train,
)

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


class Tied(nn.Module):
    """A causal transformer whose head is its embedding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.layers(self.embed(tokens), mask=mask, is_causal=True))


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Transformer(16, 2, 1, 1, 32, dropout=0.1, batch_first=True)

    def forward(self, source, target):
        return self.inner(source, target)


class Waves(nn.Module):
    """Convolutions of one dimension, down and up again, with two kinds of norms."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv1d(2, 8, 4, stride=2, padding=1)
        self.norm, self.other = nn.GroupNorm(2, 8), nn.InstanceNorm1d(8, affine=True)
        self.up = nn.ConvTranspose1d(8, 2, 4, stride=2, padding=1)

    def forward(self, x):
        x = self.other(F.silu(self.norm(self.down(x))))
        return self.up(F.rrelu(x, training=self.training))


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.out = nn.EmbeddingBag(30, 8, mode="sum"), nn.Linear(8, 3)

    def forward(self, tokens):
        return self.out(F.elu(self.bag(tokens)))


class Checkpointed(nn.Module):
    """Saves memory in PyTorch's way already."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(nn.Linear(20, 40), nn.GELU(), nn.Linear(40, 20))
                                   for _ in range(3))

    def forward(self, x):
        for part in self.parts:
            x = x + checkpoint(part, x, use_reentrant=False)
        return x


class Adapted(nn.Module):
    """A frozen layer beside a trained one of low rank."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Sequential(nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 20))
        self.frozen.requires_grad_(False)
        self.down, self.up = nn.Linear(20, 2, bias=False), nn.Linear(2, 20, bias=False)

    def forward(self, x):
        for _ in range(2):
            x = self.frozen(x) + self.up(self.down(x))
        return x


class Averaging(nn.Module):
    """Keeps moving averages of what it sees and of its square, and a count."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(20, 20)
        self.register_buffer("mean", torch.zeros(20))
        self.register_buffer("square", torch.zeros(20))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        x = self.linear(x).tanh()
        with torch.no_grad():
            mean = x.mean(0)
            self.mean.mul_(0.9).add_(mean, alpha=0.1)
            self.square.mul_(0.9).addcmul_(mean, mean, value=0.1)
            self.seen += 1
        return x * 2


class Normed(nn.Module):
    """Weights made of other parameters with each forward pass."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(parametrizations.weight_norm(nn.Linear(20, 30)), nn.ReLU(),
                                   parametrizations.weight_norm(nn.Linear(30, 20)))

    def forward(self, x):
        return self.inner(x)


class Spectral(nn.Module):
    """Its norm is iterated in buffers with each forward pass."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(parametrizations.spectral_norm(nn.Linear(20, 30)), nn.Softplus(),
                                   parametrizations.spectral_norm(nn.Linear(30, 20)))

    def forward(self, x):
        return self.inner(x)


class LastChannels(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Hardswish(),
                                   nn.Conv2d(8, 8, 3, groups=8), nn.MaxPool2d(2))
        self.to(memory_format=torch.channels_last)

    def forward(self, x):
        return self.inner(x.to(memory_format=torch.channels_last))


@dataclasses.dataclass
class Answer:
    loss: torch.Tensor
    hidden: list


class Structured(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(20, 20) for _ in range(3))

    def forward(self, x):
        hidden = []
        for layer in self.layers:
            x = layer(x).relu()
            hidden.append(x)
        return Answer(x.square().mean(), hidden)


class Physical(nn.Module):
    """A loss of derivatives by the inputs, whose gradients are gradients of gradients."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(),
                                   nn.Linear(20, 1))

    def forward(self, places):
        places = places.detach().requires_grad_(True)
        value = self.inner(places)
        slope, = torch.autograd.grad(value.sum(), places, create_graph=True)
        bend, = torch.autograd.grad(slope[:, 0].sum(), places, create_graph=True)
        return slope[:, 1] + value[:, 0] * slope[:, 0] - 0.1 * bend[:, 0]


class Orthogonal(nn.Module):
    """Its weight is made by a matrix exponential or by solving equations."""

    def __init__(self, orthogonal_map):
        super().__init__()
        layer = parametrizations.orthogonal(nn.Linear(20, 20), orthogonal_map=orthogonal_map)
        self.inner = nn.Sequential(layer, nn.Tanh(), nn.Linear(20, 20))

    def forward(self, x):
        return self.inner(x)


class ChannelsBehind(nn.Module):
    """Layer norm where the channels are the last dimension, convolutions where they are not."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 1)
        self.norm = nn.LayerNorm(16)

    def forward(self, x):
        x = self.norm(self.first(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return F.hardswish(self.second(x)).mean((2, 3))


class OneHead(nn.Module):
    """Adds two tensors whose dimension of one element has different strides."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(20, 20)

    def forward(self, x):
        x = self.inner(x).unflatten(1, (10, 2))
        return (2 * x.unsqueeze(2).transpose(1, 2) + 3 * x.unsqueeze(1)).sigmoid()


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        dropout = 0.0 if DEVICE == "cuda" else 0.3  # cuDNN draws from a state of its own
        self.layer, self.head = layer(8, 12, 2, batch_first=True, dropout=dropout), nn.Linear(12, 3)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


SEQUENCES = lambda: (torch.randn(3, 5, 8),)  # noqa: E731
TOKENS = lambda: (torch.randint(0, 30, (4, 10)),)  # noqa: E731
MODELS = {
    "tied": (Tied, TOKENS),
    "translator": (Translator, lambda: (torch.randn(2, 6, 16), torch.randn(2, 5, 16))),
    "waves": (Waves, lambda: (torch.randn(3, 2, 16),)),
    "bags": (Bags, TOKENS),
    "checkpointed": (Checkpointed, ROWS),
    "adapted": (Adapted, ROWS),
    "averaging": (Averaging, ROWS),
    "normed": (Normed, ROWS),
    "spectral": (Spectral, ROWS),
    "last channels": (LastChannels, IMAGES),
    "physical": (Physical, lambda: (torch.randn(64, 2),)),
    "cayley": (lambda: Orthogonal("cayley"), ROWS),
    "channels behind": (ChannelsBehind, IMAGES),
    "one head": (OneHead, ROWS),
}


#: Autograd adds up gradients of gradients in the order of numbers that each thread counts, and a
#: device has a thread of its own. On one thread eager has the order that it has on the CPU.
OF_ONE_THREAD = ("physical",)
#: Each has a relative among the others, in its layers or in how its weights are made.
RELATED = ("translator", "bags", "adapted", "normed", "one head")


@pytest.mark.parametrize("case", sweep(MODELS, usual=[m for m in MODELS if m not in RELATED]))
def test_training_is_eager_training_to_the_bit(case):
    with torch.autograd.set_multithreading_enabled(case not in OF_ONE_THREAD):
        require_eager_bits_within_the_budget(*MODELS[case])


@pytest.mark.parametrize("layer", [nn.GRU, nn.LSTM])
def test_recurrent_layers_train_up_to_rounding(layer):
    wrapped, plain = (built(lambda: Recurrent(layer)) for _ in range(2))
    wrapped = lowtide.wrap(wrapped, SEQUENCES(), time_limit=0.3)
    for got, expected in zip(train(wrapped, SEQUENCES), train(plain, SEQUENCES)):
        torch.testing.assert_close(got, expected)


def test_ops_that_ask_for_memory_by_the_values_they_are_given():
    """Matrix exponentials stray from their profile: their scratch is taken beside the block."""
    make = lambda: Orthogonal("matrix_exp")  # noqa: E731
    wrapped = smallest(built(make), *ROWS())
    assert same(train(wrapped, ROWS), train(built(make), ROWS))
    region, = session_of(wrapped).regions
    assert any("matrix_exp" in line for executor in region.executors
               for line in executor.overruns)


def test_autocast_around_the_call_with_a_gradient_scaler():
    def scaled(model):
        torch.manual_seed(2)
        optimizer = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler(DEVICE, init_scale=256.0)
        for _ in range(2):
            for _ in range(2):  # gradients accumulate
                with torch.autocast(DEVICE, dtype=torch.bfloat16):
                    loss = loss_of(model(*ROWS()))
                scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return [p.detach() for p in model.parameters()]

    model = built(Checkpointed)
    assert same(scaled(lowtide.wrap(model, budget="400 KB", time_limit=0.3)),
                scaled(built(Checkpointed)))


def test_data_classes_with_lists():
    wrapped, plain = lowtide.wrap(built(Structured), ROWS()), built(Structured)
    rows = ROWS()
    for model in (wrapped, plain):
        answer = model(*rows)
        (answer.loss + answer.hidden[1].sum()).backward()
    assert same([p.grad for p in wrapped.parameters()], [p.grad for p in plain.parameters()])


def test_results_may_be_written():
    """What the model returns is the caller's own, as eager's is."""
    def masked(model):
        torch.manual_seed(1)
        output = model(*ROWS())
        output[:, 3] = 0
        output.mul_(2)
        output.square().sum().backward()
        return [output.detach(), *(p.grad for p in model.parameters())]

    model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 20))
    plain = copy.deepcopy(model)
    assert same(masked(lowtide.wrap(model, ROWS())), masked(plain))


def test_gradients_of_some_results_only_in_any_layout():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(20, 8), nn.Linear(20, 8)

        def forward(self, x):
            return self.first(x).tanh(), self.second(x).sigmoid()

    def some(model):
        torch.manual_seed(1)
        first, second = model(*ROWS())
        first.backward(torch.randn(8, 16).t())
        (model(*ROWS())[1].sum(0, keepdim=True).expand(4, 8) * 2).sum().backward()
        return [p.grad for p in model.parameters()]

    # A gradient that comes in another layout is copied, and another kernel may then multiply it.
    for got, expected in zip(some(lowtide.wrap(built(Two), ROWS())), some(built(Two))):
        torch.testing.assert_close(got, expected)


class Experts(nn.Module):
    """Chooses an expert for each row, as mixtures of experts do."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(20, 3)

    def forward(self, x):
        probability, expert = self.gate(x).softmax(-1).max(-1)
        return F.one_hot(expert, 3).to(x.dtype) * probability[:, None]


def test_one_hot_needs_no_check_of_its_classes():
    wrapped = smallest(built(Experts), *ROWS())
    assert same(train(wrapped, ROWS), train(built(Experts), ROWS))


@pytest.mark.skipif(
    torch._C.DispatchKey.CompositeImplicitAutograd not in torch.ops.aten.one_hot.default.py_kernels,
    reason="this PyTorch leaves the check of the classes out of its traces")
def test_one_hot_of_a_class_that_is_too_large_is_an_error():
    class Given(nn.Module):
        def forward(self, x, classes):
            return F.one_hot(classes, 3) * x

    x = torch.randn(4, 3, requires_grad=True)
    wrapped = lowtide.wrap(Given(), (x, torch.tensor([0, 1, 2, 0])))
    with pytest.raises((lowtide.Error, IndexError), match="out of bounds|must be smaller"):
        wrapped(x, torch.tensor([0, 1, 2, 3]))


def test_an_op_of_two_numbers_is_traced():
    """Which gives a tensor of no dimension: Longformer of transformers counts its chunks so."""
    class Chunks(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(20, 20)

        def forward(self, x):
            return self.linear(x) * torch.div(x.shape[0], 3, rounding_mode="trunc")

    wrapped = lowtide.wrap(built(Chunks), ROWS(), time_limit=0.3)
    assert same(train(wrapped, ROWS), train(built(Chunks), ROWS))
