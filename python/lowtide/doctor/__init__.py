"""What Lowtide finds of what it needs on this machine."""

from .checks import checks
from .finding import FAULT, Finding, report_text, to_json

__all__ = ["FAULT", "Finding", "checks", "report_text", "to_json"]
