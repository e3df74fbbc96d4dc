"""Models that are wrapped in tests, what a few steps leave behind, and how two are compared."""

import collections

import lowtide
import torch
from lowtide.pytorch.wrap import session_of
from torch import nn
from torch.nn import functional as F


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
        self.inner = nn.Sequential(nn.Linear(20, 20), nn.BatchNorm1d(20), nn.Dropout(0.1),
                                   nn.Tanh())

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
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
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


class InThreeGraphs(nn.Module):
    """A loss. Two graph breaks part three times the same layers."""

    def __init__(self, layers):
        super().__init__()
        self.first, self.second, self.third = (layers() for _ in range(3))

    def forward(self, x):
        x = self.first(x)
        torch._dynamo.graph_break()
        x = self.second(x)
        torch._dynamo.graph_break()
        return self.third(x).square().mean()


class Deep(nn.Module):
    """A loss. Dropout, and batch norms whose statistics must move once for each forward pass."""

    def __init__(self, width=32, layers=3):
        super().__init__()
        self.layers = nn.Sequential(*(layer for _ in range(layers) for layer in (
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.Dropout(0.2), nn.GELU())))

    def forward(self, x):
        return self.layers(x).square().mean()


class Counting(Deep):
    """The gradient needs what the module overwrites, so that no pass of it can run again."""

    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.register_buffer("scale", torch.ones(32))

    def forward(self, x):
        loss = super().forward(x * (self.scale * 1))
        self.scale.mul_(0.5)
        return loss


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


def smallest(model, inputs, **options):
    """The model within nearly the smallest budget that a plan is found for."""
    for percent in (60, 70, 80, 90, 100):
        try:
            return lowtide.wrap(model, inputs, budget=f"{percent}%", time_limit=0.3, **options)
        except lowtide.InfeasibleError:
            continue
    raise AssertionError("no plan even with all of the memory")


def trained_within_smallest_share(make, inputs_of, **options):
    """The model, and what its training leaves, within nearly the smallest share that a plan is
    found for. A step of several graphs is known when the first one is over."""
    for percent in (60, 70, 80, 90, 100):
        try:
            model = lowtide.wrap(built(make), inputs_of(), budget=f"{percent}%", time_limit=0.3,
                                 when_infeasible="error", **options)
            return model, train(model, inputs_of)
        except lowtide.InfeasibleError:
            continue
    raise AssertionError("no plan even with all of the memory")


def require_eager_bits_within_the_budget(make, inputs_of):
    """Of a model that is trained within nearly the smallest budget."""
    wrapped = smallest(built(make), built(inputs_of, seed=9))
    assert same(train(wrapped, inputs_of), train(built(make), inputs_of))
    assert wrapped.memory.planned_peak <= wrapped.memory.budget


def runs_again(model):
    session = session_of(model)
    ran = collections.Counter()
    for region in session.regions:
        ran.update(a[1] for a in session.plan_for(region).actions if a[0] == "run")
    return any(count > 1 for count in ran.values())
