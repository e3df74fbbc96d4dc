import functools

import torch.nn as nn
import torch.nn.functional as F


def shortcut(before, channels, stride):
    if stride == 1 and before == channels:
        return None
    return nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False),
                         nn.BatchNorm2d(channels))


class Basic(nn.Module):
    expansion = 1

    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = shortcut(before, width, stride)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = shortcut(before, 4 * width, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(F.relu(self.bn2(self.conv2(y)))))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    def __init__(self, block, blocks, classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        before = 64
        for stage, count in enumerate(blocks):
            modules = []
            for i in range(count):
                width = 64 << stage
                modules.append(block(before, width, 2 if stage > 0 and i == 0 else 1))
                before = width * block.expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*modules))
        self.fc = nn.Linear(before, classes)

    def stem(self, x):
        return F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)

    def head(self, x):
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))

    def forward(self, x):
        return self.head(self.layer4(self.layer3(self.layer2(self.layer1(self.stem(x))))))


MODELS = {"resnet18": functools.partial(ResNet, Basic, (2, 2, 2, 2)),
          "resnet50": functools.partial(ResNet, Bottleneck, (3, 4, 6, 3)),
          "resnet152": functools.partial(ResNet, Bottleneck, (3, 8, 36, 3))}
