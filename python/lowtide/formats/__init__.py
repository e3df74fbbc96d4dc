"""Plans in the formats of other tools."""

from .shown_plan import ShownPlan
from .write import FORMATS, PAGE, checked_format, write_plans

__all__ = ["FORMATS", "PAGE", "ShownPlan", "checked_format", "write_plans"]
