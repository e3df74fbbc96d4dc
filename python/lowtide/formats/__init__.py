"""Plans in the formats of other tools."""

from .shown_plan import ShownPlan
from .write import PAGE, checked_format, write_plans

__all__ = ["PAGE", "ShownPlan", "checked_format", "write_plans"]
