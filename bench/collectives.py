"""Collectives of the ranks of this group: seconds measured, beside those that the fitted latency
and bandwidth predict.

    torchrun --nproc-per-node 4 bench/collectives.py [--save costs.json]

Rows: collective, bytes of the whole tensor, median of the measured seconds, prediction by the link
of this collective and by the one link for all, and both divided by what was measured. The fit is
made from one half of the sizes; the other half is new to it.
"""

import argparse

import lowtide
from lowtide.pytorch.ranks.communication_costs import traffic
from lowtide.pytorch.ranks.communicator import SIZES
from lowtide.pytorch.ranks.measurement import measured_times

from report import Table

COLUMNS = ("ranks", "collective", "bytes", "fitted", "measured_us", "predicted_us", "ratio",
           "one_link_us", "one_link_ratio")


def rows(comm, costs, repeats):
    between = [2 * size for size in SIZES[:-1]]
    for sizes, fitted in ((SIZES, "yes"), (between, "no")):
        times = measured_times(comm.group, comm.device, sizes, repeats)
        for collective, pairs in times.items():
            for size, seconds in pairs:
                own = costs.seconds(collective, size)
                shared = costs.link.seconds(traffic(collective, comm.size, size))
                yield (comm.size, collective, size, fitted, 1e6 * seconds, 1e6 * own,
                       own / seconds, 1e6 * shared, shared / seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--save", help="write the fitted costs to this file")
    arguments = parser.parse_args()
    with lowtide.Communicator.create() as comm:
        costs = comm.measure(repeats=arguments.repeats)
        found = list(rows(comm, costs, arguments.repeats))
        if comm.rank == 0:
            table = Table("collectives", COLUMNS, key=3)
            for row in found:
                table.add(*row)
            table.close()
            if arguments.save:
                costs.save(arguments.save)


if __name__ == "__main__":
    main()
