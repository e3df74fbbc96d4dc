import torch.nn as nn
import torch.nn.functional as F

from .vgg import VGG16, features

POOL3, POOL4 = 16, 23  # modules of the features behind the third and the fourth pooling


def upsample(classes, factor):
    return nn.ConvTranspose2d(classes, classes, 2 * factor, factor, factor // 2, bias=False)


class FCN8(nn.Module):
    def __init__(self, classes=21, width=4096, dropout=0.5):
        super().__init__()
        self.features = features(VGG16)
        self.fc6 = nn.Conv2d(512, width, 7, padding=3)
        self.fc7 = nn.Conv2d(width, width, 1)
        self.score_fr = nn.Conv2d(width, classes, 1)
        self.upscore2 = upsample(classes, 2)
        self.score_pool4 = nn.Conv2d(512, classes, 1)
        self.upscore_pool4 = upsample(classes, 2)
        self.score_pool3 = nn.Conv2d(256, classes, 1)
        self.upscore8 = upsample(classes, 8)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        pool3 = self.features[:POOL3 + 1](x)
        pool4 = self.features[POOL3 + 1:POOL4 + 1](pool3)
        x = self.features[POOL4 + 1:](pool4)
        x = self.dropout(F.relu(self.fc6(x)))
        x = self.dropout(F.relu(self.fc7(x)))
        x = self.upscore2(self.score_fr(x)) + self.score_pool4(pool4)
        x = self.upscore_pool4(x) + self.score_pool3(pool3)
        return self.upscore8(x)


MODELS = {"fcn8": FCN8}
