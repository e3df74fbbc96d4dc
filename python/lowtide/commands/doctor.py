"""``python -m lowtide doctor``."""

from __future__ import annotations

import argparse

import lowtide

from ..doctor import FAULT, checks, report_text, to_json


def add_doctor(commands):
    doctor = commands.add_parser(
        "doctor",
        help="say what is there of what Lowtide needs, and what is missing",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Looks at Python, torch, the compiled parts, devices, memory, the cache and "
                    "optional programs, and says\nwhat to do about what is wrong. It changes "
                    "nothing.",
        epilog="Exit codes: 0 no fault; 1 a fault, with which models cannot be trained.")
    doctor.add_argument("--json", action="store_true",
                        help="print one JSON document instead of a table")
    doctor.set_defaults(run=_doctor)


def _doctor(options):
    found = checks()
    print(to_json(found) if options.json else report_text(found))
    faults = [finding.name for finding in found if finding.status == FAULT]
    if faults:
        raise lowtide.Error(f"models cannot be trained: see {', '.join(faults)} above")
