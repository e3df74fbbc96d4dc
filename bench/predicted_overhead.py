"""What a plan costs as measured against what it predicted, and the memory it really took.

Keep-all and the plan take turns in processes of their own; overhead = ratio of median step times
- 1. Also checks that no byte came from outside the block and that the measured peak is within the
budget.
"""

import argparse
import statistics
import sys

from lowtide_command import Failed, lowtide

from report import Table

# Model: batch, and shares of keep-all's peak. One convolution of U-Net alone needs 40%.
CASES = {"resnet50": (16, ("60%", "40%")), "unet": (4, ("60%", "45%")), "gpt": (2, ("60%", "40%")),
         "mobilenetv2": (16, ("60%", "40%"))}
COLUMNS = ("model", "budget", "budget_bytes", "arena_bytes", "measured_bytes", "of_arena",
           "outside_bytes", "predicted", "measured", "points_off")


def run(model, batch, steps, *options):
    return lowtide("train", "--model", model, "--batch", batch, "--steps", steps + 1, "--lr",
                   "0.01", *options)


def compare(model, batch, budget, rounds, steps):
    """(last result within the budget, measured overhead)."""
    keep_all, planned = [], []
    for _ in range(rounds):
        keep_all += run(model, batch, steps)["seconds_of_steps"][1:]
        result = run(model, batch, steps, "--budget", budget)
        planned += result["seconds_of_steps"][1:]
    return result, statistics.median(planned) / statistics.median(keep_all) - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    arguments = parser.parse_args()

    table, failures = Table("predicted_overhead", COLUMNS), 0
    for model in arguments.models.split(","):
        batch, budgets = CASES[model]
        for budget in budgets:
            try:
                result, measured = compare(model, batch, budget, arguments.rounds, arguments.steps)
            except Failed as failed:
                print(f"{model} within {budget}: {failed}", flush=True)
                failures += 1
                continue
            within = result["measured_peak_bytes"] <= result["budget_bytes"]
            assert within, "the budget was exceeded"
            table.add(model, budget, result["budget_bytes"], result["arena_bytes"],
                      result["measured_peak_bytes"], result["measured_peak_bytes"] /
                      result["arena_bytes"], result["outside_bytes"], result["overhead"], measured,
                      100 * (measured - result["overhead"]))
    table.close()
    sys.exit(f"{failures} cases failed" if failures else 0)


if __name__ == "__main__":
    main()
