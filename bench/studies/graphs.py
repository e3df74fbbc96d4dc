"""Graphs of the zoo's training steps, with costs estimated by a device's data sheet."""

import pathlib
import tempfile

import lowtide as package
from lowtide_command import lowtide


def zoo_graph(model, options=(), like="cpu"):
    """The training step of `model` with `options` of the command, such as ("--batch", 8)."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "graph.json"
        lowtide("graph", "--model", model, *options, "--like", like, "-o", path)
        return package.Graph.load(path)


def storages(graph):
    """For each tensor the one whose storage it has: of a view, the one that it views."""
    return [i if tensor.alias_of is None else tensor.alias_of
            for i, tensor in enumerate(graph.tensors)]
