"""Models of few ops that a capture is to write, and a training step of each."""

import copy
import functools
import json

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_models
from joint_capture import compile_step
from on_device import seeded


def images(*shape):
    return torch.randn(*shape, generator=seeded(1))


def tokens(*shape, classes=17):
    return torch.randint(classes, shape, generator=seeded(1))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.conv(x))).mean((2, 3)))


class Twice(nn.Module):
    """One batch norm, used twice."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(self.conv(self.norm(self.conv(x))).relu())


class ReadsOldStatistics(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        old = self.norm.running_mean.clone()
        return self.norm(x * 2) + old


class OwnStatistics(nn.Module):
    """Statistics that are no buffers: nothing is there to be updated in place."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, x):
        mean, variance = x.mean(0).detach(), x.var(0).detach()
        y = F.batch_norm(x * self.scale, mean, variance, training=True)
        return y + mean


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(17, 6)
        self.head = nn.Linear(6, 17, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x):
        return self.head(self.table(x).tanh())


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 5).requires_grad_(False)
        self.second = nn.Linear(5, 5)
        self.register_buffer("scale", torch.linspace(0.5, 2, 5))

    def forward(self, x):
        return self.second(self.first(x).relu() * self.scale)


class Average(nn.Module):
    """Keeps a running mean by hand."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x):
        y = self.linear(x)
        with torch.no_grad():
            self.mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
        return (y - self.mean).sigmoid()


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        y = self.linear(x)
        y[:, 1:3] = 0
        y.view(-1, 2, 3)[:, 0].mul_(2)
        return F.relu_(y) * 2


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        y = self.linear(x)
        a, b, c = y.chunk(3, 1)
        return {"both": (a * b, torch.cat([b, c, b], 1)), "same": (y, y), "input": x.t(),
                "number": 3, "none": None, "whole": (y.argmax(1), c.var(0))}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(2, 5, 8) * torch.tensor(0.5)


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return self.second(F.gelu(self.first(x))).float()


class Pools(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        y = F.max_pool2d(self.conv(x.to(memory_format=torch.channels_last)), 2)
        return F.adaptive_avg_pool2d(F.pad(y, (1, 1)), 2)


class Resized(nn.Module):
    """Every way to interpolate, exactly as the kernels do it."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3)

    def forward(self, x):
        x = F.interpolate(self.conv(x), scale_factor=1.7, mode="bilinear")
        x = F.interpolate(x, size=(7, 5), mode="bicubic", align_corners=True)
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        x = F.interpolate(x.flatten(2), size=9, mode="linear")
        return F.interpolate(x.unsqueeze(-1), size=(4, 3), mode="bilinear", antialias=True)


class Random(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.leaky = nn.RReLU()

    def forward(self, x):
        y = self.leaky(self.linear(x))
        return y + torch.rand_like(y) * torch.bernoulli(y.detach().sigmoid())


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return 3 * x * gradient


class OwnGradient(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            shift = self.linear(x).amax(1, keepdim=True)
        return Square.apply(self.linear(x) - shift)


def needing_gradient(x):
    return x.requires_grad_()


CASES = {
    "convolution and batch norm": (ConvNet, (images(2, 3, 6, 6),)),
    "a batch norm used twice": (Twice, (images(2, 3, 4, 4),)),
    "old statistics read": (ReadsOldStatistics, (images(4, 5),)),
    "statistics that are no buffers": (OwnStatistics, (images(4, 5),)),
    "tied weights": (Tied, (tokens(2, 5),)),
    "frozen parameters": (Frozen, (images(3, 5),)),
    "a buffer updated by hand": (Average, (images(3, 5),)),
    "in-place ops": (InPlace, (images(3, 6),)),
    "several outputs": (Several, (images(3, 6),)),
    "an input that needs a gradient": (Frozen, (needing_gradient(images(3, 5)),)),
    "attention": (Attention, (images(2, 5, 8),)),
    "autocast": (Autocast, (images(2, 8),)),
    "pooling": (Pools, (images(2, 3, 10, 10),)),
    "interpolation": (Resized, (images(2, 2, 8, 8),)),
    "random numbers": (Random, (images(3, 6),)),
    "an own gradient": (OwnGradient, (images(3, 4),)),
    "gpt": (lambda: torch_models.build("gpt", layers=2, width=8, heads=2, sequence=6,
                                       vocabulary=17, dropout=0.2), (tokens(2, 6),)),
    "lstm": (lambda: torch_models.build("lstm", layers=2, width=5, vocabulary=17), (tokens(2, 4),)),
}


def build(name):
    make, inputs = CASES[name]
    torch.manual_seed(0)
    return make().train(), tuple(copy.deepcopy(i) for i in inputs)


def step(function, module, inputs):
    """Outputs, gradients and buffers of one training step, by name."""
    torch.manual_seed(7)
    outputs = torch.utils._pytree.tree_leaves(function(*inputs))
    # Squares, for gradients that fill memory: PyTorch gives a compiled step no expanded ones.
    losses = [output.float().square().sum() for output in outputs
              if isinstance(output, torch.Tensor) and output.requires_grad]
    sum(losses).backward()
    results = {f"output {i}": output for i, output in enumerate(outputs)}
    results |= {f"gradient of {name}": p.grad for name, p in module.named_parameters()}
    results |= {f"gradient of input {i}": x.grad for i, x in enumerate(inputs)}
    return results | dict(module.named_buffers())


@functools.cache
def compiled_step(name):
    """The region of a case, which has one, and what its compiled step gave."""
    module, inputs = build(name)
    compiled, recorder = compile_step(module)
    results = step(compiled, module, inputs)
    region, = recorder.regions
    return region, results


def capture_case(name):
    """The region of a case as captured, and the graph as a document."""
    captured = compiled_step(name)[0].captured
    return captured, json.loads(captured.graph.format())


def ops_of(document, type):
    return [(index, op) for index, op in enumerate(document["ops"]) if op["type"] == type]
