"""What slower memory on a disk saves: reruns alone, moves alone, both together, within one budget.

The budget is a share of what keep-all takes. Keep-all and the plans take turns in processes of
their own, with one profile; overhead = ratio of median step times - 1. Checks that the measured
peak is within the budget.
"""

import argparse
import statistics
import sys
import tempfile

from lowtide_command import Failed, lowtide

from report import Table

MODELS = {"resnet50": ("--batch", 16),
          "gpt": ("--batch", 2, "--layers", 12, "--width", 512),
          "unet": ("--batch", 4)}
SHARES = (60, 40, 25)
WAYS = {"rerun": ("--strategy", "search"), "move": ("--strategy", "offload"), "both": ()}
COLUMNS = ("model", "share", "way", "budget_bytes", "measured_bytes", "moved_bytes", "waited",
           "predicted", "measured")


def run(model, steps, *options):
    return lowtide("train", "--model", model, *MODELS[model], "--steps", steps + 1, "--lr", "0.01",
                   *options)


def ways_within(model, budget, disk, rounds, steps, limit):
    """{way: (last result, overhead measured)}; Failed instead of a pair where nothing fits."""
    keep_all, results, seconds = [], {}, {}
    for _ in range(rounds):
        keep_all += run(model, steps)["seconds_of_steps"][1:]
        for way, strategy in WAYS.items():
            try:
                results[way] = run(model, steps, "--budget", budget, "--disk", disk,
                                   "--time-limit", limit, *strategy)
                seconds.setdefault(way, []).extend(results[way]["seconds_of_steps"][1:])
            except Failed as failed:
                results[way] = failed
    base = statistics.median(keep_all)
    return {way: result if isinstance(result, Failed)
            else (result, statistics.median(seconds_of_plan(result, results, seconds)) / base - 1)
            for way, result in results.items()}


def seconds_of_plan(result, results, seconds):
    """Of all ways that found the same plan: what they differ in is noise."""
    def plan(of):
        return tuple(of[key] for key in ("overhead", "bytes_out", "bytes_in", "planned_peak_bytes"))

    return [second for way, other in results.items()
            if not isinstance(other, Failed) and plan(other) == plan(result)
            for second in seconds[way]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--shares", default=",".join(map(str, SHARES)))
    parser.add_argument("--disk", default=tempfile.gettempdir(), help="a folder on the disk to use")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--time-limit", type=float, default=15, help="of each search, in seconds")
    arguments = parser.parse_args()

    table = Table("offload", COLUMNS, key=3)
    for model in arguments.models.split(","):
        # Ops and the disk as they are in this hour: machines change.
        whole = run(model, 1, "--measure-again", "--budget", "60%", "--disk", arguments.disk,
                    "--time-limit", 1)
        for share in map(int, arguments.shares.split(",")):
            budget = whole["keep_all_peak_bytes"] * share // 100
            found = ways_within(model, budget, arguments.disk, arguments.rounds, arguments.steps,
                                arguments.time_limit)
            for way, outcome in found.items():
                if isinstance(outcome, Failed):
                    print(f"{model} within {share}%, {way}: {outcome}", flush=True)
                    continue
                result, measured = outcome
                if result["measured_peak_bytes"] > result["budget_bytes"]:
                    sys.exit(f"{model} within {share}%, {way}: the budget was exceeded")
                table.add(model, share / 100, way, result["budget_bytes"],
                          result["measured_peak_bytes"], result["bytes_out"],
                          result["wait_seconds"], result["overhead"], measured)
    table.close()


if __name__ == "__main__":
    main()
