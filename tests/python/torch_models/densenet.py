import torch
import torch.nn as nn
import torch.nn.functional as F

GROWTH = 32
BLOCKS = (6, 12, 24, 16)


class DenseLayer(nn.Module):
    def __init__(self, before):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, 4 * GROWTH, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * GROWTH)
        self.conv2 = nn.Conv2d(4 * GROWTH, GROWTH, 3, padding=1, bias=False)

    def forward(self, features):
        x = self.conv1(F.relu(self.norm1(torch.cat(features, 1))))
        return self.conv2(F.relu(self.norm2(x)))


class DenseBlock(nn.Module):
    def __init__(self, before, count):
        super().__init__()
        for i in range(count):
            self.add_module(f"denselayer{i + 1}", DenseLayer(before + i * GROWTH))

    def forward(self, x):
        features = [x]
        for layer in self.children():
            features.append(layer(tuple(features)))
        return torch.cat(features, 1)


class Transition(nn.Module):
    def __init__(self, before):
        super().__init__()
        self.norm = nn.BatchNorm2d(before)
        self.conv = nn.Conv2d(before, before // 2, 1, bias=False)

    def forward(self, x):
        return F.avg_pool2d(self.conv(F.relu(self.norm(x))), 2)


class DenseNet121(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        channels = 2 * GROWTH
        features = nn.Sequential()
        features.add_module("conv0", nn.Conv2d(3, channels, 7, 2, 3, bias=False))
        features.add_module("norm0", nn.BatchNorm2d(channels))
        features.add_module("relu0", nn.ReLU())
        features.add_module("pool0", nn.MaxPool2d(3, 2, 1))
        for i, count in enumerate(BLOCKS):
            if i:
                features.add_module(f"transition{i}", Transition(channels))
                channels //= 2
            features.add_module(f"denseblock{i + 1}", DenseBlock(channels, count))
            channels += count * GROWTH
        features.add_module("norm5", nn.BatchNorm2d(channels))
        self.features = features
        self.classifier = nn.Linear(channels, classes)

    def head(self, x):
        return self.classifier(F.adaptive_avg_pool2d(F.relu(x), 1).flatten(1))

    def forward(self, x):
        return self.head(self.features(x))


MODELS = {"densenet121": DenseNet121}
