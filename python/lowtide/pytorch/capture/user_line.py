"""Where in the user's code a node of an FX graph, or an error, comes from."""

from __future__ import annotations

import re
import traceback

import torch

from ...source_line import SourceLine
from ..common.source_folders import OF_LOWTIDE, OF_TORCH

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\n'
                    r"\s*(?P<code>[^\n]*)")


def is_of_torch(file: str) -> bool:
    """Whether a source file belongs to PyTorch."""
    return file.startswith(OF_TORCH)


def user_line(node: torch.fx.Node) -> SourceLine | None:
    """``model.py:12, in forward: y = f(x)``; None where PyTorch kept no trace, or one of
    Lowtide's code alone, as of a Sequential that is wrapped.

    The innermost frame outside PyTorch; the innermost of all when there is no other.
    """
    frames = [frame for frame in _FRAME.finditer(node.meta.get("stack_trace") or "")
              if not frame["file"].startswith(OF_LOWTIDE)]
    own = [frame for frame in frames if not is_of_torch(frame["file"])] or frames
    if not own:
        return None
    file, line, function, code = own[-1].group("file", "line", "function", "code")
    return SourceLine(file, int(line), function, code.strip())


def at_user_line(node: torch.fx.Node) -> str:
    """The same to end a message with: `` (model.py:12, in forward: y = f(x))`` or ""."""
    line = user_line(node)
    return f" ({line})" if line else ""


def at_line_of_error(error: BaseException) -> str:
    """The same for the innermost line, neither PyTorch's nor Lowtide's, that an error came from."""
    return at_line_of_stack(traceback.extract_tb(error.__traceback__))


def at_line_of_stack(stack: traceback.StackSummary) -> str:
    """The same for the innermost line of a stack."""
    own = [frame for frame in stack if not frame.filename.startswith((OF_TORCH, OF_LOWTIDE))]
    if not own:
        return ""
    line = own[-1]
    return f" ({SourceLine(line.filename, line.lineno or 0, line.name, line.line or '')})"
