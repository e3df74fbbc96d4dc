"""Trains a small GPT within a budget, and writes a page that shows its plan."""

import argparse
import pathlib

from comparison import WithLoss

import torch
import torch_models

import lowtide


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=pathlib.Path, default="report.html")
    parser.add_argument("--budget", default="50%")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--time-limit", type=float, default=20.0, help="for plans to compare with")
    parser.add_argument("--planning-seconds", type=float, default=30.0)
    options = parser.parse_args()

    net = torch_models.build("gpt", layers=options.layers, width=128, sequence=128,
                             vocabulary=256, dropout=0.1)
    batch = tuple(torch.randint(0, 256, (4, 128)) for _ in range(2))
    model = WithLoss(net, torch_models.loss)
    optimizer = torch.optim.AdamW(model.parameters())
    model = lowtide.wrap(model, batch, budget=options.budget, optimizer=optimizer,
                         time_limit=options.planning_seconds)

    def step():
        optimizer.zero_grad()
        model(*batch).backward()
        optimizer.step()

    step()  # makes the optimizer's state
    page = lowtide.report(model, options.output, step=step, example_inputs=batch,
                          time_limit=options.time_limit)
    print(f"{page}: {page.stat().st_size / 2**20:.1f} MiB; {model.memory}")


if __name__ == "__main__":
    main()
