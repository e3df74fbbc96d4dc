"""``python -m lowtide tune``."""

from __future__ import annotations

import argparse

import lowtide

from .users_code import guarded, made_by, named_function, torch_part


def add_tune(commands):
    tune = commands.add_parser(
        "tune",
        help="rank the ways to need less memory for a training step",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Plans the combinations of precision, micro-batches, slices, moves and stashes "
                    "within a budget,\nruns the first ones, and prints them in order, with the "
                    "code that trains by the best.",
        epilog="Examples:\n"
               "  python -m lowtide tune my_module:make --budget 2GiB\n"
               "  python -m lowtide tune my_module:make_of_size --budget 2GiB --goal batch\n\n"
               "Exit codes: 0 success; 1 failure; 2 bad input; 3 no combination fits.")
    tune.add_argument("source", metavar="MODULE:FUNCTION",
                      help="returns (model, example inputs); for the goals batch and length, of "
                           "the size that it is given")
    tune.add_argument("--budget", metavar="BYTES",
                      help="such as 2GiB [nine tenths of what the device has free]")
    tune.add_argument("--goal", choices=("fits", "fastest", "batch", "length"), default="fastest",
                      help="change least, the shortest step, or the largest size [fastest]")
    tune.add_argument("--optimizer", metavar="NAME", help="such as adamw or sgd-momentum [adam]")
    tune.add_argument("--precisions", metavar="LIST",
                      help="of autocast, beside the model's own: bf16,fp16, or none [bf16]")
    tune.add_argument("--stashes", metavar="LIST",
                      help="kinds that lose something: bf16,fp16,int8 [none]")
    tune.add_argument("--offload", metavar="PLACE",
                      help="a folder, or host: where values may move [nothing moves]")
    tune.add_argument("--step-seconds", metavar="SECONDS", type=float,
                      help="what takes longer is ranked behind what does not")
    tune.add_argument("--deepspeed", metavar="FILE",
                      help="a configuration of DeepSpeed that says what is allowed; the options "
                           "above count for what it says nothing of")
    tune.add_argument("--time-limit", metavar="SECONDS", type=float, default=10.0,
                      help="of planning, for each graph [10]")
    tune.add_argument("-q", "--quiet", action="store_true",
                      help="no progress; warnings, errors and the result stay")
    tune.add_argument("--json", action="store_true",
                      help="print one JSON document instead of a table")
    tune.set_defaults(run=_tune)


def _tune(options):
    torch_part("lowtide.pytorch.tune")
    if options.goal in ("batch", "length"):
        model, inputs = named_function(options.source), None
    else:
        model, inputs = made_by(options.source)
    found = guarded(lambda: lowtide.tune(
        model, inputs, options.budget, goal=options.goal, optimizer=options.optimizer,
        precisions=_names(options.precisions), stashes=_names(options.stashes),
        offload=options.offload, step_seconds=options.step_seconds, deepspeed=options.deepspeed,
        time_limit=options.time_limit, verbose=not options.quiet), f"a step of {options.source}")
    print(found.to_json() if options.json else found)
    if found.best is None:
        raise lowtide.InfeasibleError("no combination fits: give a larger budget, or allow more "
                                      "(--precisions, --stashes, --offload)")


def _names(text):
    """Those of a list with commas; none of "none"; None where nothing is given."""
    if text is None:
        return None
    return () if text == "none" else tuple(name.strip() for name in text.split(","))
