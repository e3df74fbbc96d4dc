"""A report of a plan as one page of HTML, which works without a network."""

from .compiled import CompiledPlan
from .document import write_page
from .measured import MeasuredMemory
from .origins import Origin, origins_of_names
from .report import GraphReport, HeldBeside, Report, report_of_graph, report_of_plan

__all__ = ["CompiledPlan", "GraphReport", "HeldBeside", "MeasuredMemory", "Origin", "Report",
           "origins_of_names", "report_of_graph", "report_of_plan", "write_page"]
