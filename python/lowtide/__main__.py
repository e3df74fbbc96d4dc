"""``python -m lowtide``: what needs the user's Python. Planning is the program ``lowtide``."""

from __future__ import annotations

import argparse
import sys

import lowtide

from .commands.capture import add_capture
from .commands.doctor import add_doctor
from .commands.estimate import add_estimate
from .commands.report import add_report
from .commands.tune import add_tune

_SUCCESS, _FAILURE, _BAD_INPUT, _INFEASIBLE = 0, 1, 2, 3


def main(arguments: list[str] | None = None) -> int:
    """The exit code, after what went wrong was said on standard error."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except lowtide.InputError as error:
        print(f"lowtide: {error}", file=sys.stderr)
        return _BAD_INPUT
    except lowtide.InfeasibleError as error:
        print(f"lowtide: {error}", file=sys.stderr)
        return _INFEASIBLE
    except lowtide.Error as error:
        print(f"lowtide: {error}", file=sys.stderr)
        return _FAILURE
    return _SUCCESS


def _parser():
    parser = argparse.ArgumentParser(prog="python -m lowtide", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_capture(commands)
    add_doctor(commands)
    add_estimate(commands)
    add_report(commands)
    add_tune(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
