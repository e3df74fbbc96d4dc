"""The rules of the C++ source tree: rooms, their order, and names."""

import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = sorted(path for path in (ROOT / "src").rglob("*") if path.suffix in (".cc", ".h"))
MOST_FILES = 40
NUMBERED = ROOT / "docs" / "decisions"  # a series that grows by its numbers


def room(path):
    """The folder of a source file below src/."""
    return path.parent.relative_to(ROOT / "src").as_posix()


def rooms():
    """Rooms and their namespaces in the order of src/README.md."""
    table = re.findall(r"^\| `([\w/]+)` \| .* \| `([\w:]+)` \|$",
                       (ROOT / "src/README.md").read_text(), re.MULTILINE)
    return dict(table)


def includes(path):
    """Files below src/ that a source file includes."""
    named = re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE)
    return [ROOT / "src" / name for name in named if (ROOT / "src" / name).exists()]


def wrong_includes(order, included):
    """Pairs of a room and a room that it includes though that does not come before it."""
    place = {name: i for i, name in enumerate(order)}
    return sorted({(a, b) for a, b in included if place[b] > place[a]})


def test_every_room_is_in_the_table_and_the_other_way_round():
    assert {room(path) for path in SOURCES} == set(rooms())


def test_rooms_include_only_rooms_before_them():
    included = [(room(path), room(other)) for path in SOURCES for other in includes(path)]
    assert wrong_includes(rooms(), included) == []


def test_the_check_of_includes_finds_a_wrong_one():
    assert wrong_includes(["base", "graph"], [("graph", "base"), ("base", "graph")]) == [
        ("base", "graph")]


def without_anonymous_namespaces(text):
    """The text less what is in anonymous namespaces, which end with a comment."""
    return re.sub(r"^namespace \{$.*?^\}  // namespace$", "", text, flags=re.DOTALL | re.MULTILINE)


def types_of(text):
    """Qualified names of types that a file defines at the level of its namespace."""
    names = []
    for namespace, body in re.findall(r"^namespace (lowtide[\w:]*) \{$(.*?)^\}  // namespace \1$",
                                      without_anonymous_namespaces(text), re.DOTALL | re.MULTILINE):
        kinds = r"^(?:struct|class|enum class|union) (\w+)(?: final)?(?: :[^;{]*)? \{"
        names += [f"{namespace}::{name}" for name in re.findall(kinds, body, re.MULTILINE)]
    return names


def twice_defined(texts):
    """Names of types that more than one text defines."""
    where = collections.defaultdict(set)
    for source, text in texts.items():
        for name in types_of(text):
            where[name].add(source)
    return {name: sorted(sources) for name, sources in where.items() if len(sources) > 1}


def test_no_type_is_defined_twice():
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in SOURCES}
    assert sum(len(types_of(text)) for text in texts.values()) > 200
    assert twice_defined(texts) == {}


def test_the_check_of_types_finds_a_pair():
    text = "namespace lowtide::x {\nstruct Run {\n};\n}  // namespace lowtide::x\n"
    hidden = ("namespace lowtide::x {\nnamespace {\nstruct Run {\n};\n}  // namespace\n"
              "}  // namespace lowtide::x\n")
    assert twice_defined({"a": text, "b": text}) == {"lowtide::x::Run": ["a", "b"]}
    assert twice_defined({"a": text, "b": hidden}) == {}


def unnamed_functions(text):
    """Qualified names of the functions in a file's unnamed namespaces."""
    named = re.search(r"^namespace (lowtide[\w:]*) \{$", text, re.MULTILINE)
    start = r"^(?!TEST|INSTANTIATE|using|return|#|//)[A-Za-z_][\w:<>,*& \[\]]*?[\s&*](\w+)\("
    return {f"{named.group(1) if named else ''}::{name}"
            for body in re.findall(r"^namespace \{$(.*?)^\}  // namespace$", text,
                                   re.DOTALL | re.MULTILINE)
            for name in re.findall(start, body, re.MULTILINE)}


def shared_unnamed_functions(texts):
    """Names of functions that the unnamed namespaces of several texts have."""
    where = collections.defaultdict(list)
    for source, text in texts.items():
        for name in unnamed_functions(text):
            where[name].append(source)
    return {name: sources for name, sources in where.items() if len(sources) > 1}


def test_functions_of_unnamed_namespaces_have_names_of_their_own():
    """Files are compiled several at a time, where two such functions would overload each other."""
    programs = [sorted((ROOT / "src").rglob("*.cc"))]
    programs += [sorted(part.glob("*.cc")) for part in (ROOT / "tests").iterdir()]
    for files in programs:
        assert shared_unnamed_functions({path: path.read_text() for path in files}) == {}
    assert sum(len(unnamed_functions(path.read_text())) for path in programs[0]) > 500


def test_the_check_of_functions_finds_a_pair():
    text = "namespace lowtide {{\nnamespace {{\nint {}(int x) {{\n}}\n}}  // namespace\n}}\n"
    assert shared_unnamed_functions({"a": text.format("f"), "b": text.format("f")}) == {
        "lowtide::f": ["a", "b"]}
    assert shared_unnamed_functions({"a": text.format("f"), "b": text.format("g")}) == {}


def keeps_to_its_namespace(path, namespaces):
    """Whether a file opens the namespace of its room, and others only of other rooms: there to
    declare a type, or a function that is found by its arguments."""
    opened = set(re.findall(r"^namespace (lowtide[\w:]*) \{", path.read_text(), re.MULTILINE))
    expected = namespaces[room(path)]
    own = {expected, expected.rsplit("::", 1)[0], f"{expected}::layers", f"{expected}::init"}
    return bool(opened & own) and opened <= own | set(namespaces.values())


def test_a_file_uses_the_namespace_of_its_room():
    namespaces = rooms()
    assert [path for path in SOURCES if not keeps_to_its_namespace(path, namespaces)] == []


def test_folders_are_small_enough_to_read():
    counts = collections.Counter(
        path.parent for folder in ("src", "python", "bench", "examples", "docs")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts)
    assert {str(folder.relative_to(ROOT)): count for folder, count in counts.items()
            if count > MOST_FILES and folder != NUMBERED} == {}
