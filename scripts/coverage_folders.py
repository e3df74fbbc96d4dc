"""Prints a summary of gcovr by folder of src/: coverage_folders.py SUMMARY.json."""

import collections
import json
import pathlib
import sys


def by_folder(summary):
    """The lines that were run, and all lines, of each folder."""
    folders = collections.defaultdict(lambda: [0, 0])
    for file in summary["files"]:
        folder = pathlib.PurePath(file["filename"]).parts[1]
        folders[folder][0] += file["line_covered"]
        folders[folder][1] += file["line_total"]
    return folders


def main():
    summary = json.loads(pathlib.Path(sys.argv[1]).read_text())
    rows = sorted(by_folder(summary).items())
    rows.append(("all", (summary["line_covered"], summary["line_total"])))
    for folder, (run, lines) in rows:
        print(f"{folder:12} {100 * run / max(lines, 1):6.1f}%  {run} of {lines} lines")


if __name__ == "__main__":
    main()
