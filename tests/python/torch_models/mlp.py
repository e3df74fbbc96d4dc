import torch.nn as nn
import torch.nn.functional as F


class MLP(nn.Module):
    def __init__(self, image=28, classes=10, layers=3, width=512, dropout=0.0):
        super().__init__()
        sizes = [image * image] + [width] * (layers - 1) + [classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.dropout = dropout

    def forward(self, x):
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = F.dropout(F.relu(layer(x)), self.dropout, self.training)
        return self.layers[-1](x)


MODELS = {"mlp": MLP}
