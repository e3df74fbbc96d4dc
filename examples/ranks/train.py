"""Trains a small network on many ranks within a budget; a rank that fails ends all of them, and a
start after that goes on from the last checkpoint.

    torchrun --nproc-per-node 2 examples/ranks/train.py --folder run --steps 20

`--fail-at 7` lets the last rank fail at step 7 of the first start. With torchrun's
`--max-restarts 1` the training starts again by itself and ends as if nothing had happened.
"""

import argparse
import os

import lowtide
import torch

ROWS, WIDTH = 24, 32  # of a batch, of all ranks together


def batch_of(step, comm):
    """This rank's rows of the batch of a step: the same rows on any number of ranks."""
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(ROWS, WIDTH, generator=generator)
    begin, end = comm.rows_of(comm.rank, ROWS)
    return inputs[begin:end], inputs[begin:end].sum(1, keepdim=True)


def network():
    torch.manual_seed(0)
    layers = [layer for _ in range(4)
              for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Dropout(0.1))]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1))


def fails_now(step, arguments):
    is_first_start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    return is_first_start and step == arguments.fail_at


def train(comm, arguments):
    model = torch.nn.parallel.DistributedDataParallel(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    inputs, labels = batch_of(0, comm)
    planned = lowtide.wrap(model, inputs, budget=arguments.budget, optimizer=optimizer,
                           verbose=False)
    with (lowtide.Watchdog(comm, timeout=arguments.timeout, model=model, optimizer=optimizer,
                           inputs=inputs, budget=arguments.budget),
          lowtide.Checkpointer(arguments.folder, comm) as checkpoints):
        restored = checkpoints.load(model, optimizer)
        for step in range(restored.step if restored else 0, arguments.steps):
            inputs, labels = batch_of(step, comm)
            loss = torch.nn.functional.mse_loss(planned(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if fails_now(step, arguments) and comm.rank == comm.size - 1:
                raise RuntimeError("this rank was asked to fail")
            mean = comm.allreduce(loss, "mean").item()
            if comm.rank == 0:
                print(f"step {step}: loss {mean!r}", flush=True)
            if (step + 1) % 5 == 0:
                checkpoints.save(step + 1, model, optimizer)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", default="run", help="of the checkpoints")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--budget", default=None, help="of each rank, such as 6GiB")
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--fail-at", type=int, help="the step at which a rank fails")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with lowtide.Communicator.create() as comm:
        train(comm, arguments)


if __name__ == "__main__":
    main()
