"""Whether Lowtide gets slower or needs more memory over time.

`python bench/over_time measure` writes a file to bench/results/over_time, named by date and
machine; `python bench/over_time compare OLD NEW` says what got better or worse. Exit status: 0
nothing got worse, 1 something did, 2 a file holds no results, or nothing could be measured.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from over_time import compare, results  # noqa: E402

_SOMETHING_WORSE, _BAD_INPUT = 1, 2


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    measure = commands.add_parser("measure", help="measure and keep the results")
    measure.add_argument("--rounds", type=_rounds, default=5, metavar="N", help="of each case [5]")
    measure.set_defaults(run=_measure)
    comparison = commands.add_parser("compare", help="compare two files of results")
    comparison.add_argument("old", metavar="OLD.csv")
    comparison.add_argument("new", metavar="NEW.csv")
    comparison.set_defaults(run=_compare)
    arguments = parser.parse_args(given)
    return arguments.run(arguments)


def _rounds(text):
    number = int(text)
    if number < compare.LEAST_ROUNDS:
        raise argparse.ArgumentTypeError(f"at least {compare.LEAST_ROUNDS}: fewer rounds say "
                                         f"nothing about noise")
    return number


def _measure(arguments):
    from lowtide_command import Failed

    from over_time.measure import measured

    try:
        print(f"written: {measured(arguments.rounds).write()}")
    except (Failed, OSError) as error:
        print(f"measure: {error}", file=sys.stderr)
        return _BAD_INPUT
    return 0


def _compare(arguments):
    try:
        old, new = results.Results.read(arguments.old), results.Results.read(arguments.new)
    except results.BadFile as error:
        print(f"compare: {error}", file=sys.stderr)
        return _BAD_INPUT
    for file, name in ((old, "old"), (new, "new")):
        print(f"{name}: {file.date}, {file.machine}")
    verdicts = compare.compare(old, new)
    for verdict in sorted(verdicts, key=lambda one: _ORDER.index(one.verdict)):
        print(f"{verdict.verdict}: {verdict.figure}: {verdict.text}")
    return _SOMETHING_WORSE if any(one.verdict == compare.WORSE for one in verdicts) else 0


_ORDER = (compare.WORSE, compare.BETTER, compare.SAME, compare.UNKNOWN)


if __name__ == "__main__":
    sys.exit(main())
