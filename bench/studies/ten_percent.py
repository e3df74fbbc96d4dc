"""How much less memory a step needs for a tenth more time, by the rows of the study `frontiers`.

Only budgets that were planned count, so that the true factors are a little higher.
"""

import plot

from . import frontiers
from .study import Study

MOST = 0.1
FIGURES = {"factor": "of the whole peak", "factor_above_residents": "of what is not resident"}


def rows(case):
    """The row of a (model, rows of the frontiers)."""
    model, recorded = case
    mine = [row for row in recorded() if row["model"] == model and row["overhead"] < MOST]
    least = min(mine, key=lambda row: row["budget_bytes"])
    yield (model, least["keep_all_bytes"], least["resident_bytes"], least["budget_bytes"],
           least["overhead"], 1 / least["share"], 1 / least["share_above_residents"])


def picture(rows):
    panel = plot.Panel(130, 70, 560, 24 * len(rows), "keep-all peak over the least budget with "
                       "less than 10% extra time", plot.LinearAxis(0.5, 6),
                       plot.NameAxis([row["model"] for row in rows][::-1]))
    lines = list(panel.frame())
    for figure, color in zip(FIGURES, plot.COLORS[1:]):
        points = [(row[figure], len(rows) - 1 - i) for i, row in enumerate(rows)]
        lines += panel.marks(points, color)
    bottom = 24 * len(rows) + 70
    lines += plot.legend((136, bottom + 46), 220, [(name, color, "circle") for name, color
                                                   in zip(FIGURES.values(), plot.COLORS[1:])])
    return plot.document(760, bottom + 70, "How much less memory a tenth more time buys", lines)


STUDY = Study(
    "ten_percent", ("model", "keep_all_bytes", "resident_bytes", "budget_bytes", "overhead",
                    *FIGURES), 1,
    tuple((model, frontiers.STUDY.recorded) for model in frontiers.CASES),
    ("mlp", frontiers.STUDY.recorded), rows, picture)
