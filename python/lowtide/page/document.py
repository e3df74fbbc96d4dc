"""A report as one file of HTML, with all that it draws by."""

from __future__ import annotations

import html
import importlib.util
import json
import os
import pathlib
from string import Template

from .. import InputError
from .report import Report

_FOLDER = pathlib.Path(__file__).parent
#: What HTML or JavaScript would take as the end of a script or of a line.
_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def write_page(report: Report, path: str | os.PathLike[str]) -> pathlib.Path:
    """Where it was written. Raises InputError without plotly, and where nothing can be written."""
    page = Template((_FOLDER / "page.html").read_text()).substitute(
        title=html.escape(report.title),
        style=(_FOLDER / "page.css").read_text(),
        library=_library(),
        data=json.dumps(report.to_document(), ensure_ascii=False, allow_nan=False,
                        separators=(",", ":")).translate(_ESCAPED),
        program="\n".join((_FOLDER / name).read_text()
                          for name in ("parts.js", "charts.js", "page.js")))
    target = pathlib.Path(path)
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"the report cannot be written to {target}: {error.strerror}") from None
    return target


def _library() -> str:
    """plotly.js, as the package plotly has it; the package itself is not imported."""
    found = importlib.util.find_spec("plotly")
    file = found and found.origin and pathlib.Path(found.origin).with_name("package_data")
    if not file or not (file / "plotly.min.js").is_file():
        raise InputError("a report is drawn by plotly.js, which is not installed: "
                         "pip install \"lowtide[report]\", or plotly")
    text = (file / "plotly.min.js").read_text(encoding="utf-8")
    return text.replace("</script", "<\\/script")
