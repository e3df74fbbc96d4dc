"""``python -m lowtide capture``."""

from __future__ import annotations

import argparse
import contextlib

import lowtide

from .. import _core, fake_cuda
from .users_code import made_by, torch_part


def add_capture(commands):
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


def _capture(options):
    if options.like is not None:
        _core.device_rates(options.like)  # before anything takes time
    takes_place = (options.device or "").startswith("cuda") and fake_cuda.torch_is_for_cpus()
    if takes_place:
        _put_in_place_of_cuda(options.like)
    part = torch_part("lowtide.pytorch.capture")
    with contextlib.ExitStack() as where:
        if options.meta:
            where.enter_context(torch_part("torch").device("meta"))
        if takes_place:
            where.enter_context(fake_cuda.on_host())
        model, inputs = made_by(options.source)
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
