"""Trains a model whose logits are larger than all the rest, without ever holding all of them.

The loss runs in slices of the tokens; then each parameter is also updated as soon as its gradient
is there, within a budget. Prints, for eager PyTorch and for Lowtide, losses and the peak of a step.
"""

import argparse
import gc

import lowtide
import torch
import torch.nn.functional as F
from lowtide import _runtime


class LanguageModel(torch.nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, width)
        self.body = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                        torch.nn.Linear(4 * width, width))
        self.head = torch.nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, targets):
        logits = self.head(self.body(self.embed(tokens)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def trained(arguments, options):
    """Losses of some steps, and the peak bytes of the last one, with parameters and state."""
    gc.collect()  # what was trained before
    torch.manual_seed(0)
    model = LanguageModel(arguments.vocabulary, arguments.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    batch = tuple(torch.randint(0, arguments.vocabulary, (1, arguments.tokens)) for _ in range(2))
    if options:
        model = lowtide.wrap(model, batch, optimizer=optimizer, **options)
    losses = []
    for _ in range(arguments.steps):
        _runtime.reset_peaks("cpu")
        loss = model(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        del loss
    return losses, _runtime.taken_peak_bytes("cpu")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, size in (("vocabulary", 32000), ("width", 128), ("tokens", 1024), ("steps", 3)):
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--slices", type=int, default=8)
    parser.add_argument("--budget", default="65%", help="of what slices take where all is kept")
    arguments = parser.parse_args()

    _runtime.reset_peaks("cpu")  # from now on memory is counted
    slices = dict(slices=arguments.slices)
    for name, options in [("eager", {}), ("slices", slices),
                          ("slices, fused updates, reruns",
                           dict(slices, fused_update=True, budget=arguments.budget))]:
        losses, peak = trained(arguments, options)
        print(f"{name}: losses {', '.join(f'{loss:.4f}' for loss in losses)}; peak of a step "
              f"{peak / 2**20:.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
