"""Runs studies by name: `python bench/studies reuse pools`; without a name, all of them."""

import argparse
import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
NAMES = ("reuse", "checkpoint_time", "pools", "square_root", "frontiers", "ten_percent",
         "gpt_sizes", "inference", "reruns", "devices")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--cases", help="only those of these models or sizes, a,b,c")
    parser.add_argument("--draw", action="store_true", help="only draw the pictures again")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in NAMES]
    if unknown:
        parser.error(f"no such study: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    for name in arguments.names or NAMES:
        study = importlib.import_module(f"studies.{name}").STUDY
        if not arguments.draw:
            wanted = arguments.cases.split(",") if arguments.cases else None
            study.run([case for case in study.cases if wanted is None or case[0] in wanted])
        study.draw()


if __name__ == "__main__":
    main()
