import torch
import torch.nn as nn
import torch.nn.functional as F


class Unit(nn.Module):
    def __init__(self, before, channels, kernel=1, stride=1, padding=0):
        super().__init__()
        self.conv = nn.Conv2d(before, channels, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(channels, eps=0.001)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


def row(before, channels, size=7):
    return Unit(before, channels, (1, size), padding=(0, size // 2))


def column(before, channels, size=7):
    return Unit(before, channels, (size, 1), padding=(size // 2, 0))


def square(before, channels, size=3):
    return Unit(before, channels, size, padding=size // 2)


def chain(module, x, name, steps):
    """Applies name_1, name_2, ..."""
    for i in range(steps):
        x = getattr(module, f"{name}_{i + 1}")(x)
    return x


def mean_pool(x):
    return F.avg_pool2d(x, 3, 1, 1)


class MixedA(nn.Module):
    def __init__(self, before, pool_channels):
        super().__init__()
        self.branch1x1 = Unit(before, 64)
        self.branch5x5_1 = Unit(before, 48)
        self.branch5x5_2 = square(48, 64, 5)
        self.branch3x3dbl_1 = Unit(before, 64)
        self.branch3x3dbl_2 = square(64, 96)
        self.branch3x3dbl_3 = square(96, 96)
        self.branch_pool = Unit(before, pool_channels)

    def forward(self, x):
        return torch.cat([self.branch1x1(x), chain(self, x, "branch5x5", 2),
                          chain(self, x, "branch3x3dbl", 3), self.branch_pool(mean_pool(x))], 1)


class MixedB(nn.Module):
    def __init__(self, before):
        super().__init__()
        self.branch3x3 = Unit(before, 384, 3, 2)
        self.branch3x3dbl_1 = Unit(before, 64)
        self.branch3x3dbl_2 = square(64, 96)
        self.branch3x3dbl_3 = Unit(96, 96, 3, 2)

    def forward(self, x):
        return torch.cat([self.branch3x3(x), chain(self, x, "branch3x3dbl", 3),
                          F.max_pool2d(x, 3, 2)], 1)


class MixedC(nn.Module):
    def __init__(self, before, width):
        super().__init__()
        self.branch1x1 = Unit(before, 192)
        self.branch7x7_1 = Unit(before, width)
        self.branch7x7_2 = row(width, width)
        self.branch7x7_3 = column(width, 192)
        self.branch7x7dbl_1 = Unit(before, width)
        self.branch7x7dbl_2 = column(width, width)
        self.branch7x7dbl_3 = row(width, width)
        self.branch7x7dbl_4 = column(width, width)
        self.branch7x7dbl_5 = row(width, 192)
        self.branch_pool = Unit(before, 192)

    def forward(self, x):
        return torch.cat([self.branch1x1(x), chain(self, x, "branch7x7", 3),
                          chain(self, x, "branch7x7dbl", 5), self.branch_pool(mean_pool(x))], 1)


class MixedD(nn.Module):
    def __init__(self, before):
        super().__init__()
        self.branch3x3_1 = Unit(before, 192)
        self.branch3x3_2 = Unit(192, 320, 3, 2)
        self.branch7x7x3_1 = Unit(before, 192)
        self.branch7x7x3_2 = row(192, 192)
        self.branch7x7x3_3 = column(192, 192)
        self.branch7x7x3_4 = Unit(192, 192, 3, 2)

    def forward(self, x):
        return torch.cat([chain(self, x, "branch3x3", 2), chain(self, x, "branch7x7x3", 4),
                          F.max_pool2d(x, 3, 2)], 1)


class MixedE(nn.Module):
    def __init__(self, before):
        super().__init__()
        self.branch1x1 = Unit(before, 320)
        self.branch3x3_1 = Unit(before, 384)
        self.branch3x3_2a = row(384, 384, 3)
        self.branch3x3_2b = column(384, 384, 3)
        self.branch3x3dbl_1 = Unit(before, 448)
        self.branch3x3dbl_2 = square(448, 384)
        self.branch3x3dbl_3a = row(384, 384, 3)
        self.branch3x3dbl_3b = column(384, 384, 3)
        self.branch_pool = Unit(before, 192)

    def forward(self, x):
        first = self.branch1x1(x)
        b3 = self.branch3x3_1(x)
        b3 = torch.cat([self.branch3x3_2a(b3), self.branch3x3_2b(b3)], 1)
        double = chain(self, x, "branch3x3dbl", 2)
        double = torch.cat([self.branch3x3dbl_3a(double), self.branch3x3dbl_3b(double)], 1)
        return torch.cat([first, b3, double, self.branch_pool(mean_pool(x))], 1)


class Auxiliary(nn.Module):
    def __init__(self, before, classes):
        super().__init__()
        self.conv0 = Unit(before, 128)
        self.conv1 = Unit(128, 768, 5)
        self.fc = nn.Linear(768, classes)

    def forward(self, x):
        x = self.conv1(self.conv0(F.avg_pool2d(x, 5, 3)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class InceptionV3(nn.Module):
    """torchvision's with aux_logits=True and transform_input=False."""

    def __init__(self, classes=1000, dropout=0.5):
        super().__init__()
        self.Conv2d_1a_3x3 = Unit(3, 32, 3, 2)
        self.Conv2d_2a_3x3 = Unit(32, 32, 3)
        self.Conv2d_2b_3x3 = square(32, 64)
        self.Conv2d_3b_1x1 = Unit(64, 80)
        self.Conv2d_4a_3x3 = Unit(80, 192, 3)
        self.Mixed_5b = MixedA(192, 32)
        self.Mixed_5c = MixedA(256, 64)
        self.Mixed_5d = MixedA(288, 64)
        self.Mixed_6a = MixedB(288)
        self.Mixed_6b = MixedC(768, 128)
        self.Mixed_6c = MixedC(768, 160)
        self.Mixed_6d = MixedC(768, 160)
        self.Mixed_6e = MixedC(768, 192)
        self.AuxLogits = Auxiliary(768, classes)
        self.Mixed_7a = MixedD(768)
        self.Mixed_7b = MixedE(1280)
        self.Mixed_7c = MixedE(2048)
        self.dropout = dropout
        self.fc = nn.Linear(2048, classes)

    def forward(self, x):
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(F.max_pool2d(x, 3, 2)))
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(F.max_pool2d(x, 3, 2))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(x)))))
        auxiliary = self.AuxLogits(x)
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        x = F.dropout(F.adaptive_avg_pool2d(x, 1), self.dropout, self.training)
        return self.fc(x.flatten(1)), auxiliary


MODELS = {"inceptionv3": InceptionV3}
