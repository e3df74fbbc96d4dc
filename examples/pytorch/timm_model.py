"""A vision transformer of timm with dropout within a budget.

Needs timm, and a torchvision that can be imported beside the installed torch.
"""

import timm
import torch
import torch.nn.functional as F
from comparison import Example, WithLoss, main


def make(full):
    batch, name = (16, "vit_small_patch16_224") if full else (2, "vit_tiny_patch16_224")
    sizes = {} if full else {"depth": 2, "num_classes": 10}
    net = timm.create_model(name, proj_drop_rate=0.1, **sizes)
    inputs = torch.randn(batch, 3, 224, 224), torch.randint(0, net.num_classes, (batch,))
    return Example(WithLoss(net, F.cross_entropy), inputs,
                   tuple((block, "forward") for block in net.blocks))


if __name__ == "__main__":
    main(__doc__, make, budgets=["80%"], full_budgets=["60%", "40%"])
