"""One process of PyTorch eager training: prints the seconds of each step as a JSON list.

The models are those of tests/python/torch_models, which the tests prove equal to the zoo's; the
optimizer is PyTorch's fused one, as in the zoo.
"""

import argparse
import json
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "python"))
import torch_models  # noqa: E402

CLASSES = {"unet": 4}
IMAGE = {"unet": 256}


def batch_of(name, batch):
    if name == "gpt":
        return torch.randint(0, 256, (batch, 512)), torch.randint(0, 256, (batch, 512))
    size, classes = IMAGE.get(name, 224), CLASSES.get(name, 1000)
    target = (batch, size, size) if name == "unet" else (batch,)
    return torch.randn(batch, 3, size, size), torch.randint(0, classes, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    model = torch_models.build(arguments.model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    x, y = batch_of(arguments.model, arguments.batch)
    seconds = []
    for _ in range(arguments.steps):
        begin = time.perf_counter()
        torch_models.loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
