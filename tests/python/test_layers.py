"""The folders of the package import one another in one direction, at the top of files."""

import ast
import pathlib
import re

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python" / "lowtide"
PART = PACKAGE / "pytorch"
FILES = sorted(PACKAGE.rglob("*.py"))


def order():
    """The folders of the README, lowest first."""
    return re.findall(r"^- `([\w/.]+)`:", (PART / "README.md").read_text(), flags=re.MULTILINE)


def folder_of(path):
    """Of a file, as the README names it; None for files of the package that know no PyTorch."""
    return str(path.parent.relative_to(PART)) if path.is_relative_to(PART) else None


def file_of(parts):
    """The file of a module of the package, by its name in parts; None where there is none."""
    path = PACKAGE.joinpath(*parts)
    found = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    return found[0] if found else None


def modules(node, path):
    """What one import statement of a file names of the package, each by its name in parts."""
    if isinstance(node, ast.Import):
        return [tuple(alias.name.split(".")[1:]) for alias in node.names
                if alias.name.split(".")[0] == "lowtide"]
    if node.level:
        own = ("lowtide", *path.parent.relative_to(PACKAGE).parts)
        base = own[:len(own) - node.level + 1] + tuple((node.module or "").split("."))
    else:
        base = tuple(node.module.split("."))
    if base[0] != "lowtide":
        return []
    base = tuple(part for part in base[1:] if part)
    return [(*base, alias.name) if file_of((*base, alias.name)) else base for alias in node.names]


def imports(path):
    """The files of the package that a file imports, and those that it loads on demand: by the
    table of names that ``lazily`` is given."""
    tree = ast.parse(path.read_text())
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    named = [parts for node in nodes for parts in modules(node, path)]
    if path.name == "__init__.py":
        own = path.parent.relative_to(PACKAGE).parts
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        named += [(*own, *text[1:].split(".")) for text in texts
                  if isinstance(text, str) and re.fullmatch(r"(\.\w+)+", text)]
    return {file_of(parts) for parts in named} - {None}


def folder_imports():
    """By folder: the folders that its files import, and one import of each as a text."""
    found = {}
    for path in FILES:
        if folder_of(path) is None:
            continue
        for other in imports(path):
            pair = folder_of(path), folder_of(other)
            if None not in pair and pair[0] != pair[1]:
                found.setdefault(pair[0], {})[pair[1]] = (
                    f"{path.relative_to(PACKAGE)} imports {other.relative_to(PACKAGE)}")
    return found


def test_the_readme_names_every_folder():
    assert sorted(order()) == sorted({folder_of(path) for path in FILES} - {None})


def test_folders_import_only_those_above_them_in_the_list():
    place = {folder: number for number, folder in enumerate(order())}
    against = [text for folder, others in folder_imports().items()
               for other, text in others.items() if place[other] >= place[folder]]
    assert not against


def test_no_folders_import_one_another():
    """Whatever order is written down."""
    left = {folder: set(others) for folder, others in folder_imports().items()}
    while left:
        free = [folder for folder, others in left.items() if not others & set(left)]
        assert free, f"among {sorted(left)} each imports another one of them"
        for folder in free:
            del left[folder]


def test_what_knows_no_pytorch_imports_nothing_of_it():
    """But for names that the package loads when they are asked for."""
    for path in FILES:
        if folder_of(path) is None:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    assert not any(parts[:1] == ("pytorch",) for parts in modules(node, path)), path


def test_functions_import_nothing_of_the_package():
    found = []
    for path in FILES:
        functions = [node for node in ast.walk(ast.parse(path.read_text()))
                     if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        found += [f"{path.relative_to(PACKAGE)}:{node.lineno}"
                  for function in functions for node in ast.walk(function)
                  if isinstance(node, (ast.Import, ast.ImportFrom)) and modules(node, path)]
    assert not found


def test_no_two_classes_share_a_name():
    """But for the callbacks of trainers, which users import from their own module each."""
    places = {}
    for path in FILES:
        if folder_of(path) != "integrations":
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert not {name: files for name, files in places.items() if len(files) > 1}
