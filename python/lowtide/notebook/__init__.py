"""What notebooks show of Lowtide's objects: small tables in HTML, without scripts."""

from .html import bars, table
from .planning import show_core_classes
from .terminal import as_printed

__all__ = ["as_printed", "bars", "show_core_classes", "table"]
