"""Draws bench/results/pytorch.csv as docs/pictures/pytorch.svg: time over memory, a panel a model.

Lines join the points of Lowtide. The dashed line is the certified least time of any plan within as
many bytes: predicted extra time, times the measured time of the step without a limit. Measured
points may lie below it, as far as predictions and measurements differ.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import plot  # noqa: E402
from summary import read_rows  # noqa: E402

MODELS = {"resnet50": "ResNet-50", "gpt": "GPT, dropout", "unet": "U-Net", "vit": "ViT-S/16",
          "densenet121": "DenseNet-121", "mobilenetv2": "MobileNet v2", "lstm": "LSTM",
          "bert": "BERT"}
PEERS = {"eager": (plot.COLORS[0], "diamond"), "checkpoint": (plot.COLORS[2], "square"),
         "selective": (plot.COLORS[5], "square"), "sequential": (plot.COLORS[6], "square"),
         "aot_eager": (plot.COLORS[3], "diamond"), "inductor": (plot.COLORS[4], "diamond")}
OURS = {"lowtide": (plot.COLORS[1], "circle"), "lowtide_inductor": (plot.COLORS[4], "circle")}
NAMES = {"lowtide": "Lowtide", "lowtide_inductor": "Lowtide, Inductor",
         "aot_eager": "torch.compile, budget"}
WIDTH, ACROSS = 1160, 4
LEAST, MOST = 0.4, 2.2  # x eager; what is slower is drawn at the edge


def picture(rows):
    """An SVG document of rows (summary.Row)."""
    models = list(dict.fromkeys(row.model for row in rows))
    lines = [plot.text((28, 36), "Time of a step, x eager, over its peak in MiB", "strong")]
    for i, model in enumerate(models):
        lines += _panel(i, model, [row for row in rows if row.model == model])
    entries = [(NAMES.get(tool, tool), *drawn) for tool, drawn in (OURS | PEERS).items()
               if any(row.tool == tool for row in rows)]
    entries.append(("bound (predicted)", OURS["lowtide"][0], "dashes"))
    height = 90 + 280 * -(-len(models) // ACROSS)
    lines += plot.legend((48, height - 22), (WIDTH - 60) / len(entries), entries)
    title = "Time over memory with Lowtide and with PyTorch's own tools"
    return plot.document(WIDTH, height, title, lines)


def _panel(i, model, rows):
    most = max(row.peak_total_bytes for row in rows) / 2**20
    panel = plot.Panel(48 + 285 * (i % ACROSS), 86 + 280 * (i // ACROSS), 230, 190,
                       MODELS.get(model, model),
                       plot.LinearAxis(0, 1.04 * most), plot.LinearAxis(LEAST, MOST))
    yield from panel.frame()
    for tool, (color, shape) in PEERS.items():
        yield from _marks(panel, rows, tool, color, shape)
    for tool, (color, shape) in OURS.items():
        mine = sorted((row for row in rows if row.tool == tool), key=lambda r: r.peak_total_bytes)
        if mine:
            yield from panel.curve([_point(row) for row in mine], color)
            yield from panel.curve(_least(mine), color, dashes="3 4")
        yield from _marks(panel, rows, tool, color, shape)


def _marks(panel, rows, tool, color, shape):
    of_tool = [row for row in rows if row.tool == tool]
    names = [f"{row.tool} {row.setting}: {row.peak_total_bytes / 2**20:.0f} MiB, "
             f"{row.time_x_eager:.2f}x" for row in of_tool]
    return panel.marks([_point(row) for row in of_tool], color, shape, names)


def _point(row):
    return row.peak_total_bytes / 2**20, min(max(row.time_x_eager, LEAST), MOST)


def _least(mine):
    unlimited = mine[-1].time_x_eager
    return [(row.peak_total_bytes / 2**20, min(MOST, unlimited * (1 + row.least_extra)))
            for row in mine if isinstance(row.least_extra, float)]


def main():
    rows = read_rows(ROOT / "bench" / "results" / "pytorch.csv")
    path = ROOT / "docs" / "pictures" / "pytorch.svg"
    path.write_text(picture(rows))
    print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
