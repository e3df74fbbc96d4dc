"""Runs the `lowtide` command and gives its JSON document: shared by the benchmarks."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMAND = ROOT / "build" / "lowtide"


class Failed(Exception):
    """The command ended with an error; `code` is its exit code, the text what it said."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def lowtide(*arguments):
    """The JSON document that `lowtide ARGUMENTS --json` prints. Raises Failed."""
    run = subprocess.run([COMMAND, *map(str, arguments), "--json"], capture_output=True, text=True)
    if run.returncode != 0:
        said = run.stderr.strip().splitlines()
        raise Failed(run.returncode,
                     said[-1] if said else f"exit code {run.returncode}, no message")
    return json.loads(run.stdout)
