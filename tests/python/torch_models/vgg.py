import functools

import torch.nn as nn

VGG16 = (2, 2, 3, 3, 3)
VGG19 = (2, 2, 4, 4, 4)
CHANNELS = (64, 128, 256, 512, 512)


def features(stages):
    modules, before = [], 3
    for count, channels in zip(stages, CHANNELS):
        for _ in range(count):
            modules += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU(inplace=True)]
            before = channels
        modules.append(nn.MaxPool2d(2))
    return nn.Sequential(*modules)


class VGG(nn.Module):
    """As torchvision's, with the width of the head as an option."""

    def __init__(self, stages, classes=1000, width=4096, dropout=0.5):
        super().__init__()
        self.features = features(stages)
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, width), nn.ReLU(True), nn.Dropout(dropout),
            nn.Linear(width, width), nn.ReLU(True), nn.Dropout(dropout),
            nn.Linear(width, classes))

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


MODELS = {"vgg16": functools.partial(VGG, VGG16), "vgg19": functools.partial(VGG, VGG19)}
