"""Models that test_capture_cuda.py captures, in a process of its own."""

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def encoder():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.1)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(DEVICE)
    return Autocast(model).train(), torch.randn(2, 16, 64, device=DEVICE)


class Autocast(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.model(x)


class Block(nn.Module):
    def __init__(self, dropout=0.1, width=64, heads=4):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm = nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout)
        return x + self.out(y.transpose(1, 2).flatten(2))


def gpt_block():
    return Block().cuda().train(), torch.randn(2, 32, 64).cuda()


def gpt_block_bf16():
    return Block().to(DEVICE, torch.bfloat16), torch.randn(2, 32, 64, dtype=torch.bfloat16,
                                                           device=DEVICE)


def gpt_block_without_dropout():
    return Block(dropout=0.0).half(), torch.randn(2, 32, 64).half()


def double_precision():
    return Block().double(), torch.randn(2, 32, 64).double()


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=100,
                                       n_positions=64, bos_token_id=0, eos_token_id=0))
    tokens = torch.randint(0, 100, (2, 32))
    return model.train(), {"input_ids": tokens, "labels": tokens}


def convolutions():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(8, 8, 3, groups=8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(8, 4))
    with torch.device(DEVICE):
        x = torch.randn(2, 3, 16, 16)
    return model.to(memory_format=torch.channels_last).train(), x


def norms():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.GELU(), nn.Dropout2d(0.2),
                         nn.Upsample(scale_factor=2, mode="bilinear"), nn.InstanceNorm2d(8),
                         nn.ConvTranspose2d(8, 4, 2)).train(), torch.randn(2, 3, 16, 16)


def lstm():
    return nn.LSTM(8, 16, 2, dropout=0.1).train(), torch.randn(5, 3, 8)


def gru():
    return nn.GRU(8, 16, 2, dropout=0.1).train(), torch.randn(5, 3, 8)


def embedding():
    return (nn.Sequential(nn.Embedding(20, 8, padding_idx=0), nn.Linear(8, 20), nn.LogSoftmax(-1)),
            torch.randint(0, 20, (2, 5)))


def pinned():
    return nn.Linear(8, 8), (torch.randn(2, 8).pin_memory().cuda(non_blocking=True),)


def with_a_generator():
    return nn.Linear(8, 8), (torch.randn(2, 8, generator=torch.Generator("cuda")),)


def of_memory_statistics():
    return nn.Linear(8, 8), (torch.ones(2, 8) * torch.cuda.memory_allocated(),)


class Branching(nn.Linear):
    def forward(self, x):
        x = super().forward(x)
        return x.sin() if x.sum() > 0 else x


def no_single_graph():
    return Branching(8, 8), torch.randn(2, 8)
