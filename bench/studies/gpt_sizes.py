"""Where memory goes in a step of GPT-3's sizes: weights, gradients, optimizer, activations.

Adam, products in 16 bits, a copy of the weights in 32 bits; sequences of 2048 tokens.
"""

import plot
from lowtide_command import lowtide

from .study import Study

SIZES = {"125M": (12, 768, 12), "350M": (24, 1024, 16), "760M": (24, 1536, 16),
         "1.3B": (24, 2048, 16), "2.7B": (32, 2560, 32), "6.7B": (32, 4096, 32),
         "13B": (40, 5120, 40), "175B": (96, 12288, 96)}  # layers, width, heads
PARTS = ("weights", "gradients", "optimizer", "activations")
BATCHES = (1, 8)


def rows(case):
    """A row for each batch of a (size, layers, width, heads)."""
    size, layers, width, heads = case
    for batch in BATCHES:
        found = lowtide("estimate", "--transformer", "--layers", layers, "--width", width,
                        "--heads", heads, "--vocabulary", 50257, "--sequence", 2048, "--batch",
                        batch, "--optimizer", "adam", "--precision", "bf16", "--master-copy")
        whole = found["whole"]
        yield (size, batch, found["parameters"], whole["parameters"], whole["gradients"],
               whole["optimizer state"], whole["activations"], found["peak_bytes"])


def picture(rows):
    lines = [plot.text((28, 34), "Percent of all bytes of a step", "strong")]
    for i, batch in enumerate(BATCHES):
        mine = [row for row in rows if row["batch"] == batch]
        panel = plot.Panel(70 + 460 * i, 80, 390, 270,
                           f"{batch} sequence{'s' if batch > 1 else ''} of 2048 tokens",
                           plot.NameAxis([row["size"] for row in mine]), plot.LinearAxis(0, 100))
        lines += panel.frame()
        for j, row in enumerate(mine):
            whole, below = sum(row[part] for part in PARTS), 0.0
            for part, color in zip(PARTS, plot.COLORS):
                share = 100 * row[part] / whole
                lines += panel.bar(j, (below, below + share), color, width=26)
                below += share
    lines += plot.legend((76, 398), 140, [(part, color, "square")
                                          for part, color in zip(PARTS, plot.COLORS)])
    return plot.document(950, 420, "Where memory goes over the sizes of GPT-3", lines)


STUDY = Study(
    "gpt_sizes", ("size", "batch", "parameters", *PARTS, "peak_bytes"), 1,
    tuple((size, *numbers) for size, numbers in SIZES.items()), ("125M", *SIZES["125M"]), rows,
    picture)
