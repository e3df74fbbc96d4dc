"""A training step with and without cuda_graph=True: launches, time and memory.

On the simulated device launches are counted, and times mean nothing. On a GPU times are those of
the host and the device together, and launches are left out.
"""

import argparse
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import lowtide  # noqa: E402
from lowtide.pytorch import simulated  # noqa: E402


def block(width):
    return torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.LayerNorm(width),
                               torch.nn.GELU(), torch.nn.Dropout(0.1))


def measured(arguments, as_graph):
    """Of a step: launches, least seconds, peak bytes, planned peak bytes."""
    torch.manual_seed(1)
    device = arguments.device
    model = torch.nn.Sequential(*(block(arguments.width) for _ in range(arguments.layers)))
    model.to(device)
    x = torch.randn(arguments.batch, arguments.width, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    wrapped = lowtide.wrap(model, x, budget=arguments.budget, optimizer=optimizer,
                           cuda_graph=as_graph, time_limit=5)
    launches, seconds = [], []
    for _ in range(arguments.steps):
        optimizer.zero_grad()
        torch.accelerator.synchronize()
        launched, begin = counted(device), time.perf_counter()
        loss = wrapped(x).square().mean()
        loss.backward()
        torch.accelerator.synchronize()
        seconds.append(time.perf_counter() - begin)
        launches.append(counted(device) - launched)
        optimizer.step()
    return launches[-1], min(seconds), wrapped.memory.measured_peak, wrapped.memory.planned_peak


def counted(device):
    return simulated.launches() if device == simulated.NAME else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", default="70%")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    if arguments.device == simulated.NAME:
        simulated.install(bytes=1 << 30)
    print("cuda_graph  launches  ms per step  peak MiB  planned MiB")
    for as_graph in (False, True):
        launches, seconds, peak, planned = measured(arguments, as_graph)
        print(f"{as_graph!s:10}  {launches or '-':>8}  {seconds * 1e3:11.2f}  "
              f"{peak / 2**20:8.2f}  {planned / 2**20:11.2f}")


if __name__ == "__main__":
    main()
