"""Models and inputs for training in slices: small ones that use an op each, and the zoo's."""

import lowtide
import pytest
import torch
import torch_models
from lowtide.pytorch.wrap import session_of
from on_device import DEVICE
from torch import nn
from torch.nn import functional as F
from torch_models import WithLoss

ROWS = 6


class Calls(nn.Module):
    """A model of one function of its layers and inputs."""

    def __init__(self, function, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.function = function

    def forward(self, *inputs):
        return self.function(*self.layers, *inputs)


class Recurrent(nn.Module):
    def __init__(self, batch_first, kind=nn.LSTM):
        super().__init__()
        self.inner = kind(4, 5, num_layers=2, batch_first=batch_first)

    def forward(self, x):
        return self.inner(x)[0].square().mean()


class Attention(nn.Module):
    def __init__(self, masked=False, causal=True, groups=1):
        super().__init__()
        self.mix = nn.Linear(16, 16 + 2 * 16 // groups)
        self.masked, self.causal, self.groups = masked, causal, groups

    def forward(self, x):
        rows, time, _ = x.shape
        q, k, v = self.mix(x).split([16, 16 // self.groups, 16 // self.groups], -1)
        q, k, v = (part.view(rows, time, -1, 4).transpose(1, 2) for part in (q, k, v))
        mask = (x[:, :, 0] > -0.5)[:, None, None, :] if self.masked else None
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal and not self.masked,
                                           enable_gqa=self.groups > 1)
        return y.transpose(1, 2).flatten(2).square().sum()


def floats(*shape):
    return torch.randn(ROWS, *shape, dtype=torch.float64).to(DEVICE)


def classes(count, *shape):
    return torch.randint(0, count, (ROWS, *shape)).to(DEVICE)


def _images(*layers):
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), *layers), (floats(3, 8, 8),)


def _loss(function, *inputs):
    return Calls(lambda linear, x, *targets: function(linear(x), *targets), nn.Linear(4, 5)), inputs


def _tokens(function, *layers):
    return Calls(function, *layers), (classes(9, 5), classes(9, 5))


def _largest(linear, x):
    z = linear(x)
    return (z.logsumexp(-1) + z.amin(-1) + z.max(-1)[0] + z.min(-1)[0] + z.mean(),
            z.topk(2)[0].sum(-1) + z.sort(-1)[0][..., 1:3].prod(-1),
            z.gather(-1, z.argmax(-1, keepdim=True)),
            z.index_select(-1, torch.arange(2, device=z.device)))


#: By name: makes a model and its inputs.
CASES = {
    "layer norm": lambda: (nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(),
                                         nn.Linear(6, 2)), (floats(3, 4),)),
    "RMS norm": lambda: (nn.Sequential(nn.Linear(4, 6), nn.RMSNorm(6), nn.SiLU()), (floats(4),)),
    "group norm": lambda: _images(nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 2, 3, stride=2)),
    "batch norm": lambda: _images(nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3),
                                  nn.BatchNorm2d(2, affine=False)),
    "batch norm of rows": lambda: (nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh()),
                                   (floats(4),)),
    "batch norm without statistics": lambda: _images(
        nn.BatchNorm2d(4, track_running_stats=False), nn.ReLU()),
    "batch norm as it was": lambda: (_images(nn.BatchNorm2d(4))[0].eval(), (floats(3, 8, 8),)),
    "pooling": lambda: _images(nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1)),
    "pooling to a size": lambda: _images(nn.AdaptiveAvgPool2d(3)),
    "resizing": lambda: _images(nn.Upsample(scale_factor=2), nn.Conv2d(4, 4, 3),
                                nn.Upsample(size=5, mode="bilinear"), nn.ZeroPad2d(1),
                                nn.ReflectionPad2d(1), nn.ReplicationPad2d(1)),
    "grouped and transposed": lambda: _images(nn.Conv2d(4, 4, 3, groups=4, bias=False),
                                              nn.ConvTranspose2d(4, 3, 2, stride=2)),
    "one dimension": lambda: (nn.Sequential(nn.Conv1d(3, 4, 3), nn.PReLU(), nn.Conv1d(4, 2, 3)),
                              (floats(3, 9),)),
    "three dimensions": lambda: (nn.Sequential(nn.Conv3d(2, 3, 2), nn.ELU()),
                                 (floats(2, 4, 4, 4),)),
    "cross-entropy": lambda: _loss(F.cross_entropy, floats(4), classes(5)),
    "cross-entropy that ignores": lambda: _loss(
        lambda y, t: F.cross_entropy(y, t, ignore_index=2), floats(4), classes(5)),
    "cross-entropy of weights": lambda: _loss(
        lambda y, t: F.cross_entropy(y, t, weight=y.new_tensor([1, 2, 3, 4, 5])), floats(4),
        classes(5)),
    "smooth labels": lambda: _loss(
        lambda y, t: F.cross_entropy(y, t, label_smoothing=0.1), floats(4), classes(5)),
    "summed": lambda: _loss(lambda y, t: F.cross_entropy(y, t, reduction="sum"), floats(4),
                            classes(5)),
    "each": lambda: _loss(lambda y, t: F.cross_entropy(y, t, reduction="none"), floats(4),
                          classes(5)),
    "probabilities": lambda: _loss(lambda y, t: F.cross_entropy(y, t.softmax(1)), floats(4),
                                   floats(5)),
    "squares": lambda: _loss(F.mse_loss, floats(4), floats(5)),
    "sum of squares": lambda: _loss(lambda y, t: F.mse_loss(y, t, reduction="sum"), floats(4),
                                    floats(5)),
    "smooth distance": lambda: _loss(F.smooth_l1_loss, floats(4), floats(5)),
    "Huber": lambda: _loss(lambda y, t: F.huber_loss(y, t, delta=0.5), floats(4), floats(5)),
    "yes or no": lambda: _loss(
        lambda y, t: F.binary_cross_entropy_with_logits(y, t.sigmoid()), floats(4), floats(5)),
    "divergence": lambda: _loss(
        lambda y, t: F.kl_div(y.log_softmax(1), t.softmax(1), reduction="batchmean"), floats(4),
        floats(5)),
    "language model": lambda: _tokens(
        lambda embed, head, x, t: F.cross_entropy(head(embed(x)).flatten(0, 1), t.flatten()),
        nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 9)),
    "tied": lambda: _tokens(
        lambda embed, x, t: F.cross_entropy((embed(x) @ embed.weight.t()).transpose(1, 2), t),
        nn.Embedding(9, 4)),
    "tied, with padding": lambda: _tokens(
        lambda embed, x, t: F.cross_entropy((embed(x) @ embed.weight.t()).transpose(1, 2), t),
        nn.Embedding(9, 4, padding_idx=2)),
    "two lookups in a table": lambda: _tokens(
        lambda embed, x, t: (embed(x).exp() * embed(t)).square().mean(), nn.Embedding(9, 4)),
    "a sum and itself": lambda: (Calls(
        lambda linear, x: (total := linear(x).sum()) + total, nn.Linear(4, 4)), (floats(4),)),
    "a layer of three uses": lambda: (Calls(
        lambda linear, x: linear(linear(linear(x).tanh()).exp() @ linear.weight).square().mean(),
        nn.Linear(4, 4)), (floats(3, 4),)),
    "attention": lambda: (Attention(), (floats(5, 16),)),
    "attention with a mask": lambda: (Attention(masked=True), (floats(5, 16),)),
    "grouped heads": lambda: (Attention(groups=2), (floats(5, 16),)),
    "transformer": lambda: (nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True),
                            (floats(5, 8),)),
    "transformer, time first": lambda: (nn.TransformerEncoderLayer(8, 2, 16, 0.0),
                                        (floats(5, 8).transpose(0, 1).contiguous(),)),
    "LSTM": lambda: (Recurrent(batch_first=True), (floats(7, 4),)),
    "LSTM, time first": lambda: (Recurrent(batch_first=False), (floats(7, 4).transpose(0, 1),)),
    "GRU": lambda: (Recurrent(True, nn.GRU), (floats(7, 4),)),
    "parts": lambda: (Calls(
        lambda linear, x: torch.cat([torch.stack(linear(x).chunk(2, -1)).sum(0),
                                     linear(x)[..., 1:3].cumsum(-1)], -1).amax(-1).exp(),
        nn.Linear(4, 4)), (floats(3, 4),)),
    "the largest": lambda: (Calls(_largest, nn.Linear(4, 4)), (floats(3, 4),)),
    "products": lambda: (Calls(
        lambda linear, x: (torch.baddbmm(linear(x), x, x.transpose(1, 2) @ linear(x)),
                           linear(x)[:, 0] @ linear.bias), nn.Linear(4, 4)), (floats(3, 4),)),
    "new tensors": lambda: (Calls(
        lambda linear, x: linear(x) * (torch.full((ROWS, 4), 2.0, device=x.device).double()
                                       + x.new_ones(ROWS, 4) - torch.ones(ROWS, 4).to(x)
                                       + x.new_full((ROWS, 4), 0.5)
                                       + torch.zeros(ROWS, 4).to(x)), nn.Linear(4, 4)),
        (floats(4),)),
    "over the batch": lambda: (Calls(
        lambda linear, x: (linear(x) - linear(x).mean(0)).std(0) + linear(x).softmax(0).sum(),
        nn.Linear(4, 4)), (floats(4),)),
    "sums of means": lambda: (Calls(
        lambda linear, x, t: (linear(x).mean() + x.sum() - x.mean(), linear(x).mean(0) + x.mean(0),
                              F.mse_loss(linear(x), x) + F.mse_loss(x, linear(x)),
                              F.cross_entropy(linear(x), t) + F.cross_entropy(x, t)),
        nn.Linear(4, 4)), (floats(4), classes(4))),
    "no elements": lambda: (Calls(
        lambda linear, x: linear(x).sum() + linear(x)[:, :0].reshape(0, 7).sum(),
        nn.Linear(4, 4)), (floats(4),)),
    "in another order": lambda: (Calls(
        lambda linear, x: linear(x).transpose(0, 1).exp().flip(1).transpose(0, 1).flatten(1).exp(),
        nn.Linear(4, 4)), (floats(3, 4),)),
    "by place": lambda: (Calls(
        lambda linear, x: (linear(x).transpose(0, 1).exp().as_strided((30,), (1,), 3).cumsum(0),
                           linear(x).exp()[1:4].as_strided((30,), (1,), 3).cumsum(0)),
        nn.Linear(4, 4)), (floats(3, 4),)),
    "factorized": lambda: (Calls(
        lambda linear, x: (torch.linalg.det(linear(x)[:, :3, :3])
                           + torch.linalg.slogdet(linear(x)[:, :3, :3])[1],
                           torch.linalg.solve(linear(x)[:, :3, :3], x)),
        nn.Linear(4, 4)), (floats(3, 4),)),
    "gated": lambda: (Calls(lambda linear, x: F.glu(linear(x)).sum(-1), nn.Linear(4, 4)),
                      (floats(4),)),
    "several results": lambda: (Calls(lambda linear, x: (linear(x), x.sum(), linear.weight * 2),
                                      nn.Linear(4, 4)), (floats(4),)),
    "one sequence": lambda: (nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)),
                             (floats(4).unsqueeze(0),)),
    "channels last": lambda: (_images(nn.BatchNorm2d(4), nn.MaxPool2d(2))[0],
                              (floats(3, 8, 8).to(memory_format=torch.channels_last),)),
}


def _zoo(name, inputs, **sizes):
    return lambda: (WithLoss(torch_models.build(name, **sizes)), inputs())


#: Models of the zoo that draw no random numbers.
ZOO = {
    "gpt": _zoo("gpt", lambda: (classes(20, 8), classes(20, 8)), layers=2, width=16, heads=2,
                sequence=8, vocabulary=20, dropout=0.0),
    "lstm": _zoo("lstm", lambda: (classes(20, 6), classes(20, 6)), width=8, vocabulary=20),
    "resnet18": _zoo("resnet18", lambda: (floats(3, 32, 32), classes(10)), classes=10),
    "unet": _zoo("unet", lambda: (floats(3, 32, 32), classes(4, 32, 32)), width=4),
    "vit-small": _zoo("vit-small", lambda: (floats(3, 32, 32), classes(10)), layers=1, image=32,
                      classes=10, dropout=0.0),
}


def needed_bytes(model, inputs, slices):
    with pytest.raises(lowtide.InfeasibleError) as refused:
        lowtide.wrap(model, inputs, 1000, slices=slices, optimizer="none", time_limit=0.5)
    return refused.value.smallest_budget


class Wide(nn.Module):
    """A head that is wide beside the rest of the model."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(4000, 16), nn.Linear(16, 4000, bias=False)

    def forward(self, tokens, target):
        return F.cross_entropy(self.head(self.embed(tokens)).flatten(0, 1), target.flatten())


class Tied(Wide):
    """Its head is the embedding, and its table larger than the logits of a row."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(4000, 128)
        self.head = nn.Linear(128, 4000, bias=False)
        self.head.weight = self.embed.weight


def tokens(count, *shape):
    return torch.randint(0, count, shape, device=DEVICE)


def number_of_slices(wrapped):
    names = [op.name for op in session_of(wrapped).regions[0].priced.graph.ops]
    return 1 + max((int(name.rpartition("_slice")[2].partition("_")[0]) for name in names
                    if "_slice" in name), default=0)
