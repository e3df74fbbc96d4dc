import torch
import torch.nn as nn
import torch.nn.functional as F


def double_conv(before, channels):
    return nn.Sequential(
        nn.Conv2d(before, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, classes=4, layers=4, width=32):
        super().__init__()
        channels = [width << level for level in range(layers + 1)]
        steps = list(zip(channels, channels[1:]))
        self.stem = double_conv(3, width)
        self.down = nn.ModuleList(double_conv(a, b) for a, b in steps)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(steps))
        self.merge = nn.ModuleList(double_conv(b, a) for a, b in reversed(steps))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        x = self.stem(x)
        skips = []
        for down in self.down:
            skips.append(x)
            x = down(F.max_pool2d(x, 2))
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], 1))
        return self.head(x)


MODELS = {"unet": UNet}
