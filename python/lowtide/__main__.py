"""``python -m lowtide``: what needs the user's Python. Planning is the program ``lowtide``."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import pathlib
import sys
import traceback

import lowtide

from . import _core, fake_cuda

_SUCCESS, _FAILURE, _BAD_INPUT, _INFEASIBLE = 0, 1, 2, 3


def main(arguments: list[str] | None = None) -> int:
    """The exit code, after what went wrong was said on standard error."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except lowtide.InputError as error:
        print(f"lowtide: {error}", file=sys.stderr)
        return _BAD_INPUT
    except lowtide.InfeasibleError as error:
        print(f"lowtide: {error}", file=sys.stderr)
        return _INFEASIBLE
    except lowtide.Error as error:
        print(f"lowtide: {error}", file=sys.stderr)
        return _FAILURE
    return _SUCCESS


def _parser():
    parser = argparse.ArgumentParser(prog="python -m lowtide", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_capture(commands)
    _add_estimate(commands)
    return parser


def _add_capture(commands):
    capture = commands.add_parser(
        "capture",
        help="write the training step of a PyTorch model as a graph",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Writes the training step of a PyTorch model, forward and backward, as a "
                    "lowtide-graph document.\nThe optimizer is not part of it. Nothing is "
                    "computed; times are estimates.",
        epilog="Example:\n"
               "  python -m lowtide capture my_module:make -o step.json\n"
               "  lowtide plan step.json --budget 60% -o plan.json\n\n"
               "with, in my_module.py of this folder:\n"
               "  def make():\n"
               "      model = Net().train()\n"
               "      return model, (torch.randn(8, 3, 64, 64),)\n\n"
               "Exit codes: 0 success; 1 failure; 2 bad input.")
    capture.add_argument("source", metavar="MODULE:FUNCTION",
                         help="returns (model, example inputs): the inputs as a tuple, as a dict "
                              "by name, or one tensor")
    capture.add_argument("-o", "--output", metavar="FILE", required=True, help="file to write")
    capture.add_argument("--meta", action="store_true",
                         help="make model and inputs on the device meta, without memory: for "
                              "models that are larger than this machine")
    capture.add_argument("--device", metavar="DEVICE",
                         help="where the step is to run: cpu or cuda [where the function makes "
                              "it]. Without a GPU, cuda is the one that --like names")
    capture.add_argument("--like", metavar="NAME",
                         help="estimate times by the data sheet of this device: "
                              f"{', '.join(_core.device_names())} [cpu]")
    capture.add_argument("--slices", metavar="N", type=int, default=1,
                         help="run ops that treat the rows of a batch apart on so many slices of "
                              "them, one after the other [1]")
    capture.add_argument("--stash", metavar="KIND", choices=("exact", "bf16", "fp16", "int8"),
                         help="hold in fewer bits between the passes what loses nothing by that "
                              "(exact), or activations too, as bf16, fp16 or int8 [none]")
    capture.add_argument("--name", help="of the graph [the model's class]")
    capture.set_defaults(run=_capture)


def _add_estimate(commands):
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


def _capture(options):
    if options.like is not None:
        _core.device_rates(options.like)  # before anything takes time
    takes_place = (options.device or "").startswith("cuda") and fake_cuda.torch_is_for_cpus()
    if takes_place:
        _put_in_place_of_cuda(options.like)
    part = _torch_part("lowtide.pytorch.capture")
    with contextlib.ExitStack() as where:
        if options.meta:
            where.enter_context(_torch_part("torch").device("meta"))
        if takes_place:
            where.enter_context(fake_cuda.on_host())
        model, inputs = _made_by(options.source)
    graph = part.capture(model, inputs, name=options.name, path=options.output,
                         device=options.device, like=options.like, slices=options.slices,
                         stash=options.stash)
    peak = lowtide.replay(graph, lowtide.keep_all(graph)).peak_bytes
    print(f"{graph.name}: {len(graph.ops)} ops, {len(graph.tensors)} tensors, "
          f"{lowtide.format_bytes(graph.resident_bytes)} held throughout, keep-all peak "
          f"{lowtide.format_bytes(peak)} without workspaces. Times are "
          f"{_core.cost_origin(graph)}.")


def _estimate(options):
    _torch_part("lowtide.pytorch.estimate")
    if os.path.exists(options.source) or ":" not in options.source:
        subject, inputs = pathlib.Path(options.source), None
    else:
        subject, inputs = _made_by(options.source)
    found = lowtide.estimate(
        subject, inputs, optimizer=options.optimizer, precision=options.precision,
        budget=options.budget, measure=options.measure, batch=options.batch, length=options.length)
    print(found.to_json() if options.json else found, end="\n" if options.json else "")


def _put_in_place_of_cuda(like):
    if like is None:
        raise lowtide.InputError(f"This PyTorch has no CUDA. Say which GPU is to stand for it: "
                                 f"--like {', '.join(_core.device_names()[1:])}.")
    fake_cuda.install(like)


def _torch_part(name):
    """A module that imports torch; what torch would log of an error is said by the error."""
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise lowtide.InputError("This needs PyTorch: pip install torch.") from None


def _made_by(source):
    """What the user's function returns: a model and its inputs."""
    module_name, colon, function_name = source.partition(":")
    if not (module_name and colon and function_name):
        raise lowtide.InputError(f"{source!r} does not name a function: write MODULE:FUNCTION, "
                                 f"such as my_module:make.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = _guarded(lambda: importlib.import_module(module_name), f"Importing {module_name}")
    function = getattr(module, function_name, None)
    if not callable(function):
        raise lowtide.InputError(f"{module_name} has no function {function_name}.")
    made = _guarded(function, f"{source}()")
    if not (isinstance(made, tuple) and len(made) == 2):
        raise lowtide.InputError(f"{source}() returns a {type(made).__name__}; it must return "
                                 f"(model, example inputs).")
    return made


def _guarded(work, what):
    """The result of the user's code; what it raises as an InputError with the line."""
    try:
        return work()
    except Exception as error:
        frame = _users_frame(traceback.extract_tb(error.__traceback__))
        why = fake_cuda.explained(error) or f"{type(error).__name__}: {error}"
        raise lowtide.InputError(f"{what} fails with {why} "
                                 f"({frame.filename}:{frame.lineno})") from None


def _users_frame(frames):
    """The last that is neither PyTorch's nor Lowtide's."""
    packages = [str(pathlib.Path(lowtide.__file__).parent)]
    torch = sys.modules.get("torch")
    if torch is not None:
        packages.append(str(pathlib.Path(torch.__file__).parent))
    own = [frame for frame in frames if not frame.filename.startswith(tuple(packages))]
    return (own or frames)[-1]


if __name__ == "__main__":
    sys.exit(main())
