"""A transformer over two processes, each within a budget of bytes, beside one process.

Starts the processes itself. Within torchrun, a program calls init_process_group("gloo") and what
`train` does here.
"""

import argparse
import pathlib
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
import torch.nn as nn
import torch.nn.functional as F

import lowtide

VOCABULARY, LENGTH = 128, 32


class Embedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(LENGTH, width)

    def forward(self, tokens):
        return self.tokens(tokens) + self.positions.weight


def model_of(layers, width):
    torch.manual_seed(0)
    blocks = [nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
              for _ in range(layers)]
    return nn.Sequential(Embedding(width), *blocks, nn.Linear(width, VOCABULARY))


def loss_fn(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batch_of(rows):
    tokens = torch.randint(0, VOCABULARY, (rows, LENGTH + 1),
                           generator=torch.Generator().manual_seed(1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def train(options):
    """On each rank: the losses of all steps, the plan in words, and this rank's parameters."""
    batch = batch_of(options.batch)
    pipe = lowtide.pipeline(model_of(options.layers, options.width), batch, options.budget,
                            loss_fn=loss_fn, micro_batches=options.micro_batches,
                            schedule=options.schedule, optimizer=torch.optim.SGD,
                            time_limit=options.planning_seconds, verbose=False)
    optimizer = torch.optim.SGD(pipe.parameters(), lr=0.1)
    losses = []
    for _ in range(options.steps):
        pipe.zero_grad()
        losses.append(pipe.step(*batch))
        optimizer.step()
    return torch.stack(losses), pipe.explain(), pipe.state_dict()


def train_in_one_process(options):
    model = model_of(options.layers, options.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(options.steps):
        optimizer.zero_grad()
        for inputs, targets in zip(*(value.chunk(options.micro_batches)
                                     for value in batch_of(options.batch))):
            loss_fn(model(inputs), targets).backward()
        for parameter in model.parameters():
            parameter.grad.div_(options.micro_batches)
        optimizer.step()
    return model.state_dict()


def run_rank(rank, options, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank,
                            world_size=options.ranks)
    losses, words, state = train(options)
    torch.save(state, pathlib.Path(folder) / f"state{rank}")
    if rank == 0:
        print(words)
        print("losses", *(f"{loss:.4f}" for loss in losses.mean(dim=1)))
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--budget", default="4MiB")
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--planning-seconds", type=float, default=3.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(run_rank, (options, folder), options.ranks)
        found = {}
        for rank in range(options.ranks):
            found |= torch.load(pathlib.Path(folder) / f"state{rank}")
    expected = train_in_one_process(options)
    alike = found.keys() == expected.keys() and all(
        torch.equal(found[key], value) for key, value in expected.items())
    print(f"parameters have {'the same bits' if alike else 'OTHER BITS'} as in one process")


if __name__ == "__main__":
    main()
