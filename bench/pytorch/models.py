"""The models that are compared: a module that gives the loss, its inputs, its blocks, its stages.

All but BERT are those of tests/python/torch_models, which the tests prove equal to the zoo's.
"""

import contextlib
import dataclasses
import functools
import pathlib
import sys
from collections.abc import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))
import torch_models  # noqa: E402
from torch_models import WithLoss  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Stages:
    """A network as a row: after(stages[-1](...stages[0](before(x))))."""

    before: Callable
    stages: tuple
    after: Callable


@dataclasses.dataclass(frozen=True)
class Case:
    """A model to train.

    `module(*inputs)` is the loss. `blocks` are the methods, as (module, name), that one would
    checkpoint one by one; `stages` splits the network into a row where it is one (a function of
    the first input).
    """

    module: nn.Module
    inputs: tuple
    blocks: tuple
    optimizer: str
    stages: Callable | None = None


def _images(batch, size=224, classes=1000):
    return torch.randn(batch, 3, size, size), torch.randint(0, classes, (batch,))


def _tokens(batch, length, vocabulary):
    return tuple(torch.randint(0, vocabulary, (batch, length)) for _ in range(2))


def _forwards(modules):
    return tuple((module, "forward") for module in modules)


def resnet50(batch=16, image=224):
    net = torch_models.build("resnet50")
    blocks = [block for i in range(1, 5) for block in getattr(net, f"layer{i}")]
    return Case(WithLoss(net), _images(batch, image), ((net, "stem"), *_forwards(blocks)), "sgd",
                lambda x: Stages(nn.Identity(), (net.stem, *blocks), net.head))


def mobilenetv2(batch=16, image=224):
    net = torch_models.build("mobilenetv2")
    return Case(WithLoss(net), _images(batch, image), _forwards(net.features), "sgd",
                lambda x: Stages(nn.Identity(), tuple(net.features), net.head))


def densenet121(batch=8, image=224):
    net = torch_models.build("densenet121")
    layers = [m for m in net.modules() if isinstance(m, torch_models.densenet.DenseLayer)]
    return Case(WithLoss(net), _images(batch, image), _forwards(layers), "sgd",
                lambda x: Stages(nn.Identity(), tuple(net.features), net.head))


def unet(batch=8, image=256, width=32):
    net = torch_models.build("unet", width=width)
    x, target = torch.randn(batch, 3, image, image), torch.randint(0, 4, (batch, image, image))
    return Case(WithLoss(net), (x, target), _forwards([net.stem, *net.down, *net.merge]), "adamw")


def gpt(batch=4, layers=8, width=512, sequence=512, vocabulary=8192):
    net = torch_models.build("gpt", layers=layers, width=width, sequence=sequence,
                             vocabulary=vocabulary, dropout=0.1)

    def stages(tokens):
        masked_out = net.future(tokens)
        row = tuple(functools.partial(block, masked_out=masked_out) for block in net.blocks)
        return Stages(net.embed, row, net.head)

    return Case(WithLoss(net), _tokens(batch, sequence, vocabulary), _forwards(net.blocks),
                "adamw", stages)


def vit(batch=16, layers=12):
    net = torch_models.build("vit-small", layers=layers, dropout=0.1)
    return Case(WithLoss(net), _images(batch), _forwards(net.blocks), "adamw",
                lambda x: Stages(net.embed, tuple(net.blocks), net.classify))


def lstm(batch=256, steps=128, width=512, vocabulary=256):
    net = torch_models.build("lstm", width=width, vocabulary=vocabulary)
    return Case(WithLoss(net), _tokens(batch, steps, vocabulary), ((net, "run"),), "adamw")


class MaskedLanguageModel(nn.Module):
    """BERT of Hugging Face, drawn from its configuration, with a head over its vocabulary."""

    def __init__(self, layers, width, vocabulary):
        super().__init__()
        from transformers import BertConfig, BertModel

        self.bert = BertModel(BertConfig(
            vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers,
            num_attention_heads=width // 64, intermediate_size=4 * width, pad_token_id=None,
            attn_implementation="eager"), add_pooling_layer=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, target):
        logits = self.head(self.bert(input_ids=tokens).last_hidden_state)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def bert(batch=8, layers=8, width=512, sequence=256, vocabulary=8192):
    module = MaskedLanguageModel(layers, width, vocabulary)
    return Case(module, _tokens(batch, sequence, vocabulary),
                _forwards(module.bert.encoder.layer), "adamw")


def gpt2(batch=16, layers=24, width=1024, sequence=1024, vocabulary=50257):
    """GPT-2 medium of Hugging Face, with PyTorch's fused attention."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=vocabulary, n_positions=sequence, n_embd=width, n_layer=layers,
        n_head=width // 64, use_cache=False, attn_implementation="sdpa"))
    return Case(LogitsWithLoss(model), _tokens(batch, sequence, vocabulary),
                _forwards(model.transformer.h), "adamw")


def head(batch=1, sequence=2048, width=256, vocabulary=131072):
    """A small model before a head over a large vocabulary."""
    return Case(WideHead(width, vocabulary), _tokens(batch, sequence, vocabulary), (), "sgd")


class WideHead(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.body = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                  nn.Linear(4 * width, width))
        self.weight = self.embed.weight  # tied

    def forward(self, tokens, target):
        return self.loss_of_hidden(self.body(self.embed(tokens)).flatten(0, 1), self.weight,
                                   target.flatten())

    @staticmethod
    def loss_of_hidden(hidden, weight, target):
        return F.cross_entropy(F.linear(hidden, weight), target)


def vit_large(batch=64, layers=24, width=1024, image=224):
    """ViT-L/16 of Hugging Face, with PyTorch's fused attention."""
    from transformers import ViTConfig, ViTForImageClassification

    model = ViTForImageClassification(ViTConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64,
        intermediate_size=4 * width, image_size=image, num_labels=1000,
        attn_implementation="sdpa"))
    layers_of = next(m for m in model.modules() if isinstance(m, nn.ModuleList))
    return Case(LogitsWithLoss(model), _images(batch, image), _forwards(layers_of), "adamw")


class LogitsWithLoss(nn.Module):
    """A model of Hugging Face that gives logits of its first input."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, target):
        logits = self.model(x).logits
        return F.cross_entropy(logits.flatten(0, -2), target.flatten())


MODELS = {make.__name__: make for make in (resnet50, gpt, unet, densenet121, mobilenetv2, vit,
                                           lstm, bert, head, gpt2, vit_large)}


def build(name, device="cpu", **sizes):
    """The same case in every process: weights and batch are drawn on the CPU from one seed."""
    torch.manual_seed(0)
    case = MODELS[name](**sizes)
    case.module.train().to(device)
    return dataclasses.replace(case, inputs=tuple(x.to(device) for x in case.inputs))


def optimizer_of(case):
    """Its optimizer with its state made by one step of zero gradients."""
    parameters = list(case.module.parameters())
    if case.optimizer == "sgd":
        optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, fused=True)
    else:
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return optimizer


def gradients_of(case, optimizer, taken):
    """By name, of a step after optimizer_of(). Those that an update within the backward pass has
    `taken` are read from the first moments, which were zero."""
    return {name: _first_gradient(optimizer.state[p], optimizer.defaults) if taken else p.grad
            for name, p in case.module.named_parameters() if taken or p.grad is not None}


def _first_gradient(state, defaults):
    if "momentum_buffer" in state:
        return state["momentum_buffer"]
    return state["exp_avg"] / (1 - defaults["betas"][0])


@contextlib.contextmanager
def restored(case, optimizer):
    """Parameters and optimizer state are afterwards as they were before."""
    tensors = [p.detach() for p in case.module.parameters()]
    tensors += [value for state in optimizer.state.values() for value in state.values()
                if isinstance(value, torch.Tensor)]
    before = [tensor.clone() for tensor in tensors]
    yield
    for tensor, value in zip(tensors, before, strict=True):
        tensor.copy_(value)
