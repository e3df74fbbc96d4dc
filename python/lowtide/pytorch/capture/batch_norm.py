"""Which batch normalizations may update their running statistics in place.

AOTAutograd makes the update functional: ``_native_batch_norm_legit_functional`` returns the new
statistics, and they are copied into the buffers after the forward pass. Recorded like that, the
buffers would be overwritten at the boundary, and no batch normalization could run again behind it.
``native_batch_norm`` writes the buffers where they are, once, and may run again without them.

Where eager PyTorch runs cuDNN, AOTAutograd traces PyTorch's own kernels, which round otherwise. The
op that is recorded runs cuDNN again.
"""

from __future__ import annotations

import dataclasses
import operator

import torch

from ..joint_graph.primals import placeholders

FUNCTIONAL = torch.ops.aten._native_batch_norm_legit_functional.default
NO_TRAINING = torch.ops.aten._native_batch_norm_legit_no_training.default
BACKWARD = torch.ops.aten.native_batch_norm_backward.default
#: Positions of (running mean, running variance) among the arguments and among the results.
READ, MADE = (3, 4), (3, 4)
_TRAINING, _BACKWARD_TRAINING, _BACKWARD_MEAN = 5, 7, 5


def ignores_statistics(node: torch.fx.Node) -> bool:
    """Whether this is a gradient in training: it is given running statistics and reads none."""
    return node.target is BACKWARD and node.args[_BACKWARD_TRAINING] is True


def read_arguments(node: torch.fx.Node) -> list[object]:
    """The arguments of a node less the running statistics that it ignores."""
    ignored = READ if ignores_statistics(node) else ()
    return [None if index in ignored else value for index, value in enumerate(node.args)]


def recorded_types(joint: torch.fx.GraphModule,
                   updating: set[torch.fx.Node]) -> dict[torch.fx.Node, str]:
    """The op that is recorded in place of each of these batch norms; ``updating`` of them update
    their statistics in place."""
    types = {}
    for node in joint.graph.nodes:
        if node in updating:
            types[node] = ("lowtide::cudnn_batch_norm" if is_by_cudnn(node)
                           else "aten::native_batch_norm")
        elif node.target is NO_TRAINING and is_by_cudnn(node):
            types[node] = "lowtide::cudnn_batch_norm_no_training"
        elif node.target is BACKWARD and (types.get(_forward_of(node))
                                          == "lowtide::cudnn_batch_norm"):
            types[node] = "lowtide::cudnn_batch_norm_backward"
    return types


def as_in_eager(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """``graph``, of an evaluation, with cuDNN's batch norm where eager PyTorch runs it."""
    for node in graph.graph.find_nodes(op="call_function", target=NO_TRAINING):
        if is_by_cudnn(node):
            node.target = torch.ops.lowtide.cudnn_batch_norm_no_training.default
    graph.recompile()
    return graph


def is_by_cudnn(node: torch.fx.Node) -> bool:
    """Whether eager PyTorch runs this batch norm, a forward one, by cuDNN. Those for which cuDNN
    keeps a reserve between the passes are left out, as no result of the traced op is like it."""
    if any(arg is None for arg in node.args[:5]) or torch.version.cuda is None:
        return False
    x, *parameters = [arg.meta["val"] for arg in node.args[:5]]
    training = node.target is not NO_TRAINING
    if x.device.type != "cuda":
        return False
    backend = torch._C._select_batch_norm_backend(x, *parameters, training, node.args[-1])
    return (backend == torch._C._BatchNormBackend.Cudnn and not (
        training and torch._C._get_cudnn_batch_norm_reserve_space_size(x, training)))


def _forward_of(backward: torch.fx.Node) -> torch.fx.Node | None:
    """The forward op whose mean a backward one reads."""
    mean = backward.args[_BACKWARD_MEAN]
    is_result = isinstance(mean, torch.fx.Node) and mean.target is operator.getitem
    return mean.args[0] if is_result and mean.args[1] == 1 else None


def updates_in_place(joint: torch.fx.GraphModule, updated: tuple[int, ...]) -> set[torch.fx.Node]:
    """The functional batch normalizations that can be written as ones that update in place.

    Both their statistics are primals in ``updated`` or what an earlier one made of those, and
    nobody reads an old version after the next is written.
    """
    lines = _lines(joint, updated)
    position = {node: index for index, node in enumerate(joint.graph.nodes)}
    bad = {root for root, line in lines.items() if not _is_safe(line, position, joint)}
    writers = {writer: {root for root, line in lines.items() if writer in line.writers}
               for line in lines.values() for writer in line.writers}
    while True:  # the mean and the variance of one op stand or fall together
        spoilt = {root for roots in writers.values() if roots & bad for root in roots} - bad
        if not spoilt:
            return {writer for writer, roots in writers.items() if not roots & bad}
        bad |= spoilt


@dataclasses.dataclass
class _Line:
    """The values that one buffer has in turn: versions[0] is its placeholder."""

    versions: list[torch.fx.Node]
    writers: list[torch.fx.Node]  # writers[i] reads versions[i] and makes versions[i + 1]


def _lines(joint, updated):
    """By the placeholder of the buffer."""
    primals = placeholders(joint, "primals")
    lines = {primals[index]: _Line([primals[index]], []) for index in updated}
    root = {node: node for node in lines}
    for node in joint.graph.nodes:
        if node.target is not FUNCTIONAL or node.args[_TRAINING] is not True:
            continue
        read = [node.args[index] for index in READ]
        if not all(value in root for value in read):
            continue
        for value, index in zip(read, MADE):
            line = lines[root[value]]
            line.writers.append(node)
            for user in node.users:
                if user.target is operator.getitem and user.args[1] == index:
                    line.versions.append(user)
                    root[user] = root[value]
    return {node: line for node, line in lines.items() if line.writers}


def _is_safe(line, position, joint):
    """Whether each version is read before the next is written, and the last one is returned."""
    returned = joint.graph.output_node()
    if len(line.versions) != len(line.writers) + 1 or returned not in line.versions[-1].users:
        return False
    storages = [_storage(node) for node in joint.graph.find_nodes(op="placeholder")]
    if storages.count(_storage(line.versions[0])) > 1:
        return False
    return all(_read_in_time(version, writer, position)
               for version, writer in zip(line.versions, line.writers))


def _read_in_time(version, writer, position):
    others = [user for user in version.users if user is not writer and not ignores_statistics(user)]
    if any(position[user] > position[writer] for user in others):
        return False
    return not any(_storage(user) == _storage(version) for user in others)


def _storage(node):
    """Tells storages apart; None for what is no tensor."""
    value = node.meta.get("val")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None
