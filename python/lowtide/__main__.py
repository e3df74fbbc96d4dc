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

_SUCCESS, _FAILURE, _BAD_INPUT = 0, 1, 2


def main(arguments: list[str] | None = None) -> int:
    """The exit code, after what went wrong was said on standard error."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except lowtide.InputError as error:
        print(f"lowtide: {error}", file=sys.stderr)
        return _BAD_INPUT
    except lowtide.Error as error:
        print(f"lowtide: {error}", file=sys.stderr)
        return _FAILURE
    return _SUCCESS


def _parser():
    parser = argparse.ArgumentParser(prog="python -m lowtide", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
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
    return parser


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
        raise lowtide.InputError("Capturing needs PyTorch: pip install torch.") from None


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
