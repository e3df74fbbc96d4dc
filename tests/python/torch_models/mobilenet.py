import torch.nn as nn
import torch.nn.functional as F

SEPARABLES = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
              *((512, 1),) * 5, (1024, 2), (1024, 1))
# expansion, channels, blocks, stride
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
          (6, 160, 3, 2), (6, 320, 1, 1))


def conv_norm(before, channels, kernel=1, stride=1, groups=1, activation=None):
    modules = [nn.Conv2d(before, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
               nn.BatchNorm2d(channels)]
    return modules + ([activation()] if activation else [])


class MobileNet(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        blocks, before = [nn.Sequential(*conv_norm(3, 32, 3, 2, activation=nn.ReLU))], 32
        for channels, stride in SEPARABLES:
            blocks.append(nn.Sequential(
                *conv_norm(before, before, 3, stride, before, nn.ReLU),
                *conv_norm(before, channels, activation=nn.ReLU)))
            before = channels
        self.features = nn.Sequential(*blocks)
        self.classifier = nn.Linear(before, classes)

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


class InvertedResidual(nn.Module):
    def __init__(self, before, channels, stride, expansion):
        super().__init__()
        width = before * expansion
        modules = []
        if expansion > 1:
            modules.append(nn.Sequential(*conv_norm(before, width, activation=nn.ReLU6)))
        modules.append(nn.Sequential(*conv_norm(width, width, 3, stride, width, nn.ReLU6)))
        self.conv = nn.Sequential(*modules, *conv_norm(width, channels))
        self.residual = stride == 1 and before == channels

    def forward(self, x):
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, classes=1000, dropout=0.2):
        super().__init__()
        blocks, before = [nn.Sequential(*conv_norm(3, 32, 3, 2, activation=nn.ReLU6))], 32
        for expansion, channels, count, stride in STAGES:
            for i in range(count):
                blocks.append(InvertedResidual(before, channels, 1 if i else stride, expansion))
                before = channels
        blocks.append(nn.Sequential(*conv_norm(before, 1280, activation=nn.ReLU6)))
        self.features = nn.Sequential(*blocks)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(1280, classes))

    def head(self, x):
        return self.classifier(F.adaptive_avg_pool2d(x, 1).flatten(1))

    def forward(self, x):
        return self.head(self.features(x))


MODELS = {"mobilenet": MobileNet, "mobilenetv2": MobileNetV2}
