import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, weight_dropout, dropout):
        super().__init__()
        self.heads, self.weight_dropout, self.dropout = heads, weight_dropout, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x, masked_out=None):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q * (width // self.heads) ** -0.5 @ k.transpose(-2, -1)
        if masked_out is not None:
            scores = scores.masked_fill(masked_out, float("-inf"))
        weights = F.dropout(scores.softmax(-1), self.weight_dropout, self.training)
        y = self.proj((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return F.dropout(y, self.dropout, self.training)


class Feedforward(nn.Module):
    def __init__(self, width, hidden_dropout, dropout, approximate):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)
        self.hidden_dropout, self.dropout = hidden_dropout, dropout
        self.approximate = approximate

    def forward(self, x):
        x = F.gelu(self.fc1(x), approximate=self.approximate)
        x = F.dropout(x, self.hidden_dropout, self.training)
        return F.dropout(self.fc2(x), self.dropout, self.training)


class Block(nn.Module):
    def __init__(self, width, heads, dropout, weight_dropout=0.0, hidden_dropout=0.0, epsilon=1e-5,
                 approximate="none"):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, epsilon)
        self.attn = Attention(width, heads, weight_dropout, dropout)
        self.norm2 = nn.LayerNorm(width, epsilon)
        self.mlp = Feedforward(width, hidden_dropout, dropout, approximate)

    def forward(self, x, masked_out=None):
        x = x + self.attn(self.norm1(x), masked_out)
        return x + self.mlp(self.norm2(x))
