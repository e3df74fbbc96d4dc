"""``python -m lowtide report``."""

from __future__ import annotations

import argparse
import json

import lowtide

from ..arguments import checked_seconds
from ..formats import FORMATS, PAGE, checked_format
from ..page import report_of_plan, write_page


def add_report(commands):
    report = commands.add_parser(
        "report",
        help="show a plan as a page of HTML, or in the format of another tool",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Writes one page of HTML that shows a plan: memory over time, addresses, the "
                    "schedule, the cost of\nother budgets, and what is kept, run again and moved, "
                    "and why. The page needs no network. Or writes a trace for Perfetto, a "
                    "snapshot for PyTorch's\nmemory_viz, a graph for Graphviz or a CSV of buffers, "
                    "by the suffix of the file.",
        epilog="Examples:\n"
               "  lowtide plan unet.json --budget 60% -o plan.json\n"
               "  python -m lowtide report unet.json plan.json -o report.html\n"
               "  python -m lowtide report unet.json plan.json -o plan.pickle\n\n"
               "  lowtide train --model unet --budget 60% --graph-out g.json --plan-out p.json "
               "--trace t.json\n"
               "  python -m lowtide report g.json p.json --run t.json -o report.html\n\n"
               "Exit codes: 0 success; 1 failure; 2 bad input.")
    report.add_argument("graph", metavar="GRAPH.json", help="graph that the plan is of")
    report.add_argument("plan", metavar="PLAN.json", help="plan to show")
    report.add_argument("-o", "--output", metavar="FILE",
                        help="page to write; .json: a trace; .pickle: a snapshot; .dot; .csv: "
                             "buffers")
    report.add_argument("--format", choices=FORMATS,
                        help="of the file, whatever its suffix is")
    report.add_argument("--run", metavar="TRACE.json", dest="trace",
                        help="trace of a step by this plan, of lowtide train --trace: what it "
                             "took is drawn too")
    report.add_argument("--time-limit", metavar="SECONDS", type=float, default=20.0,
                        help="for plans within other budgets; 0: none are made [20]")
    report.add_argument("--json", action="store_true",
                        help="print what the page shows as one JSON document")
    report.set_defaults(run=_report)


def _report(options):
    if options.output is None and not options.json:
        raise lowtide.InputError("give -o FILE, the page to write, or --json")
    graph, plan = lowtide.Graph.load(options.graph), lowtide.Plan.load(options.plan)
    if checked_format(options.format, options.output or "") != PAGE:
        if options.json:
            raise lowtide.InputError("--json prints what a page shows: give a page to write, or "
                                     "none")
        _say(lowtide.report(graph, options.output, plan, run=options.trace, format=options.format))
        return
    found = report_of_plan(graph, plan, options.trace,
                           checked_seconds(options.time_limit, zero_is_none=True))
    if options.output is not None:
        written = write_page(found, options.output)
        if not options.json:
            _say(written)
    if options.json:
        print(json.dumps(found.to_document(), allow_nan=False))


def _say(written):
    print(f"{written}: {written.stat().st_size / 2**20:.1f} MiB")
