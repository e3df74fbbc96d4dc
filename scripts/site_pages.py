"""What the site has beside the pages of docs: a reference of the Python package made of its
docstrings, and each file of the repository that a page links to."""

import ast
import pathlib
import posixpath
import re

from mkdocs.structure.files import File, InclusionLevel

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "python" / "lowtide" / "__init__.py"

#: Of the site: where files from elsewhere in the repository are.
_FILES = "files/"
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")

#: What is compiled has signatures and types in its stub.
_OF_STUB = "\n    options: {show_if_no_docstring: true}"

_REFERENCE = """# The Python package

Made of its docstrings. `import lowtide` needs no PyTorch; what the second part lists does, and is
loaded when it is first asked for.

## Graphs and plans

{core}

## PyTorch

{with_torch}
"""


def on_files(files, config):
    """Adds the reference, and the files outside of docs that pages link to, one after the other."""
    files.append(File.generated(config, "reference/python.md", content=reference(PACKAGE)))
    pages = list(files.documentation_pages())
    while pages:
        page = pages.pop()
        for path in linked_files(page.content_string, source_of(page.src_uri)):
            if uri_of(path) in files.src_uris:
                continue
            found = File.generated(config, uri_of(path), abs_src_path=str(path),
                                   inclusion=InclusionLevel.NOT_IN_NAV)
            files.append(found)
            if found.is_documentation_page():
                pages.append(found)
    return files


def on_page_markdown(markdown, page, config, files):
    """Links lead to where the files are in the site; one to a folder becomes text."""
    here = page.file.src_uri

    def led(link):
        path = target_of(link[2], source_of(here))
        if path is None:
            return link[0]
        if path.is_dir():
            return link[1]
        to = posixpath.relpath(uri_of(path), posixpath.dirname(here) or ".")
        return f"[{link[1]}]({to}{link[3] or ''})"

    return _LINK.sub(led, markdown)


def source_of(uri):
    """The file of the repository that this one of the site is a copy of."""
    return ROOT / uri.removeprefix(_FILES) if uri.startswith(_FILES) else DOCS / uri


def uri_of(path):
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return _FILES + path.relative_to(ROOT).as_posix()


def target_of(link, source):
    """The file or folder that a page links to; None for an address elsewhere, or for nothing."""
    if re.match(r"[a-z]+:", link):
        return None
    path = (source.parent / link).resolve()
    return path if path.exists() and path.is_relative_to(ROOT) else None


def linked_files(text, source):
    """Those that are not in docs."""
    found = (target_of(link[2], source) for link in _LINK.finditer(text))
    return sorted({path for path in found
                   if path is not None and path.is_file() and not path.is_relative_to(DOCS)})


def reference(package):
    """The page that has each public name's docstring."""
    tree = ast.parse(package.read_text())
    values = {node.targets[0].id: node.value for node in tree.body
              if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
    modules = ast.literal_eval(values["_WITH_TORCH"])
    core = sorted(set(ast.literal_eval(values["__all__"])) - set(modules), key=str.lower)
    torch_names = [f"{_module_of(package.parent, modules[name], name)}.{name}"
                   for name in sorted(modules, key=str.lower)]
    defined = {node.name for node in tree.body if hasattr(node, "name")}
    core_names = [f"lowtide.{name}" if name in defined else f"lowtide._core.{name}"
                  for name in core]
    return _REFERENCE.format(core=_entries(core_names), with_torch=_entries(torch_names))


def _module_of(package, module, name):
    """The module that defines a name which this one, or a package of this name, hands on."""
    path = package.joinpath(*module.strip(".").split("."))
    for source in sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
        if any(getattr(node, "name", None) == name for node in ast.parse(source.read_text()).body):
            return ".".join(source.relative_to(package.parent).with_suffix("").parts)
    raise LookupError(f"{name} is not defined in {path}")


def _entries(names):
    return "\n\n".join(f"::: {name}" + _OF_STUB * ("._core." in name) for name in names)
