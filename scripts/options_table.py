#!/usr/bin/env python3
"""Writes the table of options into docs/reference/strategies.md, from the strategies themselves."""

import pathlib

import lowtide

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "reference" / "strategies.md"
HEADING = "## Options\n"
HEAD = ("| strategy | option | default | unit | allowed | meaning |\n"
        "| --- | --- | --- | --- | --- | --- |\n")


def table():
    rows = []
    for strategy in lowtide.strategies():
        name = f"`{strategy.name}`"
        for option in strategy.options:
            rows.append(f"| {name} | `{option.name}` | {option.default} | {option.unit} | "
                        f"{option.allowed} | {option.help} |\n".replace("  ", " "))
            name = ""
    return HEAD + "".join(row.replace("|  |", "| |") for row in rows)


def updated(page):
    """The text of the page with the table as it is now: the first after the heading."""
    start = page.index("| strategy | option |", page.index(HEADING))
    end = page.index("\n\n", start) + 1
    return page[:start] + table() + page[end:]


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
