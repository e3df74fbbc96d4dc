"""Plans that move values and rerun ops, beside those that others' rules give, for captured graphs.

The budget is a share of keep-all's peak. Lanes: of a slow disk, a disk, and the bus of a GPU.
Overheads are predicted, over keep-all. The gap is to the lower bound for any plan that may move
and rerun.
"""

import argparse
import pathlib

from lowtide_command import ROOT, Failed, lowtide

from report import Table

LANES = {"slow": ("--bandwidth", "0.5GB/s", "--latency", 100),
         "disk": ("--bandwidth", "2GB/s,1.6GB/s", "--latency", 100),
         "bus": ("--bandwidth", "20GB/s", "--latency", 20)}
SHARES = (60, 40, 25)
WAYS = {"rerun": "search", "move": "offload", "both": None, "capuchin": "capuchin",
        "save_on_cpu": "save-on-cpu"}
COLUMNS = ("graph", "lanes", "share", "bound", *WAYS, "gap")


def planned(graph, share, lanes, strategy, limit):
    """The document of the command; None where nothing is within the budget."""
    chosen = ("--strategy", strategy) if strategy else ()
    try:
        return lowtide("plan", graph, "--budget", f"{share}%", *lanes, *chosen, "--time-limit",
                       limit)
    except Failed as failed:
        if failed.code != 3:
            raise
        return None


def row(graph, share, lanes, limit):
    found = {way: planned(graph, share, lanes, name, limit) for way, name in WAYS.items()}
    both = found["both"]
    bound = None if both is None else both["lower_bound"] / both["keep_all_cost"] - 1
    overheads = ["" if one is None else one["overhead"] for one in found.values()]
    return ["" if bound is None else bound, *overheads, "" if both is None else both["gap"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graphs", nargs="*", type=pathlib.Path,
                        default=sorted((ROOT / "data" / "graphs").glob("torch-*.json")))
    parser.add_argument("--shares", default=",".join(map(str, SHARES)))
    parser.add_argument("--lanes", default=",".join(LANES))
    parser.add_argument("--time-limit", type=float, default=5, help="of each search, in seconds")
    arguments = parser.parse_args()

    table = Table("joint_plans", COLUMNS, key=3)
    for graph in arguments.graphs:
        for lanes in arguments.lanes.split(","):
            for share in map(int, arguments.shares.split(",")):
                table.add(graph.stem, lanes, share / 100,
                          *row(graph, share, LANES[lanes], arguments.time_limit))
    table.close()


if __name__ == "__main__":
    main()
