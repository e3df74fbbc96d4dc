"""The page of a wrapped module."""

from .module_report import report_of_module

__all__ = ["report_of_module"]
