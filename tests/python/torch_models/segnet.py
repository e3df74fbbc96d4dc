import torch.nn as nn
import torch.nn.functional as F

from .vgg import CHANNELS, VGG16


def stage(before, channels):
    """A convolution for each entry of `channels`."""
    modules = []
    for after in channels:
        modules += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        before = after
    return nn.Sequential(*modules)


class SegNet(nn.Module):
    def __init__(self, classes=21):
        super().__init__()
        stages = list(zip((3, *CHANNELS), CHANNELS, VGG16))
        self.encoder = nn.ModuleList(stage(a, [b] * count) for a, b, count in stages)
        decoder = [stage(b, [b] * (count - 1) + [a]) for a, b, count in reversed(stages[1:])]
        self.decoder = nn.ModuleList([*decoder, stage(CHANNELS[0], CHANNELS[:1])])
        self.head = nn.Conv2d(CHANNELS[0], classes, 3, padding=1)

    def forward(self, x):
        pools = []
        for encoder in self.encoder:
            x = encoder(x)
            size = x.shape[-2:]
            x, indices = F.max_pool2d(x, 2, return_indices=True)
            pools.append((indices, size))
        for decoder in self.decoder:
            indices, size = pools.pop()
            x = decoder(F.max_unpool2d(x, indices, 2, output_size=size))
        return self.head(x)


MODELS = {"segnet": SegNet}
