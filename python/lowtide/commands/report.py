"""``python -m lowtide report``."""

from __future__ import annotations

import argparse
import json

import lowtide

from ..arguments import checked_seconds
from ..page import report_of_plan, write_page


def add_report(commands):
    report = commands.add_parser(
        "report",
        help="show a plan as a page of HTML",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Writes one page of HTML that shows a plan: memory over time, addresses, the "
                    "schedule, the cost of\nother budgets, and what is kept, run again and moved, "
                    "and why. The page needs no network.",
        epilog="Examples:\n"
               "  lowtide plan unet.json --budget 60% -o plan.json\n"
               "  python -m lowtide report unet.json plan.json -o report.html\n\n"
               "  lowtide train --model unet --budget 60% --graph-out g.json --plan-out p.json "
               "--trace t.json\n"
               "  python -m lowtide report g.json p.json --run t.json -o report.html\n\n"
               "Exit codes: 0 success; 1 failure; 2 bad input.")
    report.add_argument("graph", metavar="GRAPH.json", help="graph that the plan is of")
    report.add_argument("plan", metavar="PLAN.json", help="plan to show")
    report.add_argument("-o", "--output", metavar="FILE", help="page to write")
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
    seconds = checked_seconds(options.time_limit, zero_is_none=True)
    found = report_of_plan(lowtide.Graph.load(options.graph), lowtide.Plan.load(options.plan),
                           options.trace, seconds)
    if options.output is not None:
        written = write_page(found, options.output)
        if not options.json:
            print(f"{written}: {written.stat().st_size / 2**20:.1f} MiB")
    if options.json:
        print(json.dumps(found.to_document(), allow_nan=False))
