"""The documentation: links lead somewhere, pages are listed, README is short, tables are readable,
and strategies and options are those that there are."""

import inspect
import pathlib
import re
import sys

import lowtide
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))
import options_table  # noqa: E402

GENERATED = re.compile(r"\.|build(-.*)?$|out$")  # folders that are no part of the sources
PAGES = sorted(page for page in ROOT.rglob("*.md")
               if not any(GENERATED.match(part) for part in page.relative_to(ROOT).parts[:-1]))
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def without_code(text):
    text = re.sub(r"^```.*?^```[^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", lambda code: code[0].strip("`").replace("](", ""), text)


def anchors(page):
    """As GitHub makes them: lower case, hyphens for spaces, a number for a repetition."""
    found = []
    for heading in HEADING.findall(without_code(page.read_text())):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        repeated = sum(other == anchor for other, _ in found)
        found.append((anchor, f"{anchor}-{repeated}" if repeated else anchor))
    return {unique for _, unique in found}


def broken_links(page):
    for link in LINK.findall(without_code(page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{link}: no such file"
        elif anchor and anchor not in anchors(target):
            yield f"{link}: no such heading"


def tables(text):
    """Each table as its rows of cells, the heads left out."""
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        yield [[cell.strip() for cell in line.strip("|").split("|")]
               for line in block.splitlines()[2:]]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_relative_links_lead_somewhere(page):
    assert list(broken_links(page)) == []


def test_every_page_is_listed():
    """By the list of its folder if it has one, else by that of all documentation."""
    unlisted = []
    for page in (ROOT / "docs").rglob("*.md"):
        own = page.parent / "README.md"
        contents = own if own.exists() else ROOT / "docs" / "README.md"
        linked = {(contents.parent / link.partition("#")[0]).resolve()
                  for link in LINK.findall(contents.read_text())}
        if page not in (contents, ROOT / "docs" / "README.md") and page not in linked:
            unlisted.append(str(page.relative_to(ROOT)))
    assert unlisted == []


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 80
    assert max(map(len, tables("\n".join(lines) + "\n"))) <= 6


def test_a_cell_of_a_benchmark_has_one_number():
    """What stands in the first column says what was measured, and may have any."""
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    plain = re.sub(r"\]\([^)]*\)|`[^`\n]*`", "", text)
    crowded = [cell for table in tables(plain) for row in table for cell in row[1:]
               if len(NUMBER.findall(cell)) > 1]
    assert crowded == []


def test_the_reference_lists_every_strategy():
    methods, *_ = tables(options_table.PAGE.read_text())
    known = {found.name for found in lowtide.strategies()}
    assert {row[0].split()[0].strip("`") for row in methods} == known


def test_the_reference_has_the_generated_table_of_options():
    text = options_table.PAGE.read_text()
    assert options_table.updated(text) == text, "run scripts/options_table.py"


def test_every_option_of_wrap_is_in_its_table():
    pytest.importorskip("torch")
    page = (ROOT / "docs" / "how-to" / "train-a-pytorch-model.md").read_text()
    options = tables(page[page.index("## Options"):])
    documented = {name.strip("`") for row in next(options) for name in row[0].split(", ")}
    _, _, *known = inspect.signature(lowtide.wrap).parameters
    assert documented == set(known)
