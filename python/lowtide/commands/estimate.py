"""``python -m lowtide estimate``."""

from __future__ import annotations

import argparse
import os
import pathlib

import lowtide

from .users_code import guarded, made_by, torch_part


def add_estimate(commands):
    estimate = commands.add_parser(
        "estimate",
        help="tell the memory of a training step before it runs",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Tells the memory of a training step of eager PyTorch: parameters, gradients, "
                    "optimizer\nstate, activations by layer and by kind of op, and the peak. "
                    "Nothing of the model's size is\nallocated. `lowtide estimate` does this for "
                    "graphs, models of the zoo, and sizes as numbers.",
        epilog="Examples:\n"
               "  python -m lowtide estimate config.json --batch 4 --length 512\n"
               "  python -m lowtide estimate my_module:make --optimizer adamw --precision bf16\n\n"
               "Exit codes: 0 success; 1 failure; 2 bad input; 3 no plan is within the budget.")
    estimate.add_argument("source", metavar="SOURCE",
                          help="MODULE:FUNCTION, which returns (model, example inputs); or the "
                               "config.json of a model of Hugging Face's transformers, or its "
                               "folder")
    estimate.add_argument("--optimizer", metavar="NAME", help="such as sgd-momentum or none [adam]")
    estimate.add_argument("--precision", metavar="TYPE", help="of autocast: bf16 or fp16")
    estimate.add_argument("--budget", metavar="BUDGET",
                          help="also plan within these bytes (1.5GiB), or this share of the peak "
                               "(60%%)")
    estimate.add_argument("--batch", metavar="N", type=int, default=1,
                          help="sequences or images, with a config.json [1]")
    estimate.add_argument("--length", metavar="N", type=int,
                          help="tokens of a sequence, with a config.json [512]")
    estimate.add_argument("--measure", action="store_true", default=None,
                          help="run each different op once to measure its workspaces [for models "
                               "that MODULE:FUNCTION makes]")
    estimate.add_argument("--json", action="store_true",
                          help="print one JSON document instead of a table")
    estimate.set_defaults(run=_estimate)


def _estimate(options):
    torch_part("lowtide.pytorch.estimate")
    if os.path.exists(options.source) or ":" not in options.source:
        subject, inputs = pathlib.Path(options.source), None
    else:
        subject, inputs = made_by(options.source)
    found = guarded(lambda: lowtide.estimate(
        subject, inputs, optimizer=options.optimizer, precision=options.precision,
        budget=options.budget, measure=options.measure, batch=options.batch,
        length=options.length), f"a step of {options.source}")
    print(found.to_json() if options.json else found, end="\n" if options.json else "")
