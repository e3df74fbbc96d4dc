"""The page of a wrapped module."""

from .module_report import plans_of_module, report_of_module

__all__ = ["plans_of_module", "report_of_module"]
