"""The walk from a joint graph to a lowtide graph."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence

import torch
from torch.utils import _pytree as pytree

from lowtide import Graph, InputError

from . import batch_norm, phases
from .arguments import schema_arguments
from .captured import BOUNDARY, Captured, Output
from .in_place import choose_pairs, is_pointwise, permitted_pairs
from .primals import placeholders
from .tensors import Tensors
from .user_line import at_user_line

#: What these libraries hold computes the same each time it runs; other ops run once.
PURE_LIBRARIES = ("aten", "prims")
_NOTHING = Output()


def from_joint(
    joint: torch.fx.GraphModule,
    num_fwd_outputs: int,
    *,
    name: str,
    primal_roles: Sequence[str],
    primal_names: Sequence[str],
    updated: Sequence[int],
) -> Captured:
    """The training step that AOTAutograd hands to a ``partition_fn``, as a lowtide graph.

    ``joint`` has placeholders ``primals_*`` and ``tangents_*`` with fake tensors in
    ``meta["val"]`` and returns the forward outputs, then one gradient (or None) per primal. Roles
    (``parameter``, ``buffer``, ``input``, ...) and names are by primal; ``updated`` are the indices
    of the primals that the module overwrites, as ``mutated_primals(joint)`` gives them.

    Raises InputError, with the line of the user's code where it is known, for what the format or a
    plan cannot hold: effects, symbolic shapes, dtypes such as complex ones.
    """
    walk = _Walk(joint, num_fwd_outputs, tuple(updated))
    walk.add_residents(primal_roles, primal_names)
    forward, backward = phases.split(joint, num_fwd_outputs)
    for node in forward:
        walk.visit(node, "forward")
    walk.add_boundary()
    for node in backward:
        walk.visit(node, "backward")
    return walk.captured(name)


class _Walk:
    """The document as far as it is written, and what stands for each FX node.

    ``values`` holds by node an Output, or a list of them for an op with several results.
    """

    def __init__(self, joint, num_fwd_outputs, updated):
        self.joint, self.updated = joint, updated
        results = list(joint.graph.output_node().args[0])
        self.returned, self.derived = results[:num_fwd_outputs], results[num_fwd_outputs:]
        self.in_place_norms = batch_norm.updates_in_place(joint, updated)
        self.tensors = Tensors()
        self.ops, self.nodes = [], []
        self.values, self.constants = {}, {}

    # ---- Residents

    def add_residents(self, roles, names):
        self.primals = placeholders(self.joint, "primals")
        known = {*self.primals, *placeholders(self.joint, "tangents")}
        for node in self.joint.graph.find_nodes(op="placeholder"):
            if node not in known and node.users:
                raise InputError(f"The joint graph has an input {node.target}, which is neither a "
                                 f"primal nor a tangent; such graphs cannot be planned.")
        for node, role, name in zip(self.primals, roles, names, strict=True):
            value = node.meta.get("val")
            if not node.users:
                self.values[node] = _NOTHING
            elif isinstance(value, torch.Tensor):
                self.values[node] = Output(self.tensors.add_resident(node, value, role, name))
            else:
                self.values[node] = Output(literal=value)

    def _constant(self, node):
        tensor = operator.attrgetter(node.target)(self.joint)
        if not isinstance(tensor, torch.Tensor):
            raise InputError(f"The graph contains a graph, {node.target}, of an op with a body "
                             f"(such as cond); this cannot be planned{at_user_line(node)}.")
        if id(tensor) not in self.constants:
            index = self.tensors.add_resident(node, tensor, "constant", node.target)
            self.constants[id(tensor)] = index, tensor
        return Output(self.constants[id(tensor)][0])

    # ---- Ops

    def visit(self, node, phase):
        if node.op == "get_attr":
            self.values[node] = self._constant(node)
        elif node.target is operator.getitem:
            self.values[node] = self.values[node.args[0]][node.args[1]]
        else:
            _require_pure(node)
            self._add_call(node, phase)

    def _add_call(self, node, phase):
        given = batch_norm.read_arguments(node)
        bound = schema_arguments(node, given, self.values.__getitem__)
        op = {"name": node.name, "type": node.target.name(), "inputs": bound.inputs,
              "outputs": [], "cost": 0, "phase": phase, "args": bound.args}
        if torch.Tag.nondeterministic_seeded in node.target.tags:
            op["random"] = True
        if node.target.namespace not in PURE_LIBRARIES:
            op["recomputable"] = False
        results = self._wanted_results(node)
        if node in self.in_place_norms:
            self.values[node] = self._update_in_place(node, op, results)
        else:
            self.values[node] = self._add_results(node, op, results)
        if is_pointwise(node.target):
            pairs = permitted_pairs(op, self.tensors.records)
            if pairs:
                op["inplace"] = pairs
        self.ops.append(op)
        self.nodes.append(node)

    def _wanted_results(self, node):
        """The fake results, None for those that an output_mask leaves out."""
        value = node.meta["val"]
        mask = _argument(node, "output_mask")
        if mask is None:
            return value
        return [result if wanted else None for result, wanted in zip(value, mask)]

    def _add_results(self, node, op, results):
        """Gives the op its outputs; returns what stands for the node."""
        leaves, spec = pytree.tree_flatten(results)
        count = sum(isinstance(leaf, torch.Tensor) for leaf in leaves)
        outputs = []
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor):
                outputs.append(Output(literal=leaf))
                continue
            name = f"{node.name}.{len(op['outputs'])}" if count > 1 else node.name
            index = self.tensors.add_value(node, leaf, name, op)
            op["outputs"].append(index)
            outputs.append(Output(index))
        return pytree.tree_unflatten(outputs, spec)

    def _update_in_place(self, node, op, results):
        """Writes the op as one that mutates its statistics: the new ones are the old ones."""
        positions = [op["args"][index]["tensor"] for index in batch_norm.READ]
        op["type"] = "aten::native_batch_norm"
        op["mutates"] = positions
        statistics = [Output(op["inputs"][position]) for position in positions]
        return [*self._add_results(node, op, results[:batch_norm.MADE[0]]), *statistics]

    # ---- The boundary

    def add_boundary(self):
        """The op that hands over the forward outputs and is given the tangents."""
        self.boundary = len(self.ops)
        self.forward_outputs = tuple(self._output(node) for node in self.returned)
        handed = dict.fromkeys(output.tensor for output in self.forward_outputs
                               if output.tensor is not None)
        overwritten = [index for index in self._overwritten() if index not in handed]
        inputs = [*handed, *overwritten]
        op = {"name": "boundary", "type": BOUNDARY, "inputs": inputs, "outputs": [], "cost": 0,
              "phase": "backward", "recomputable": False,
              "args": [{"tensors": list(range(len(inputs)))}]}
        if overwritten:
            op["mutates"] = list(range(len(handed), len(inputs)))
        self.tangents = []
        for node in placeholders(self.joint, "tangents"):
            # The caller's memory: no bytes of ours.
            index = self.tensors.add_foreign(node, node.meta["val"], node.target)
            op["outputs"].append(index)
            self.values[node] = Output(index)
            self.tangents.append(index)
        self.ops.append(op)
        self.nodes.append(None)

    def _overwritten(self):
        """The residents that the caller overwrites once the forward pass is over.

        Not those whose new value is the resident itself, written where it is already.
        """
        done = {output.tensor for output in self.forward_outputs}
        residents = [self.values[self.primals[index]].tensor for index in self.updated]
        return [index for index in residents if index is not None and index not in done]

    def _output(self, node):
        return self.values[node] if isinstance(node, torch.fx.Node) else Output(literal=node)

    # ---- The whole

    def captured(self, name):
        gradients = tuple(self._output(node) for node in self.derived)
        self._name_gradients(gradients)
        self._refuse_stale_reads()
        self._run_once(self.forward_outputs)
        kept = list(dict.fromkeys(result.tensor for result in (*self.forward_outputs, *gradients)
                                  if result.tensor is not None))
        records = self.tensors.records
        choose_pairs(self.ops, records, kept)
        document = {"format": "lowtide-graph", "version": 1, "name": name, "cost_unit": "us",
                    "tensors": records, "ops": self.ops, "outputs": kept}
        return Captured(
            graph=Graph.parse(json.dumps(document), f"the graph of {name}"),
            joint=self.joint,
            nodes=tuple(self.nodes),
            boundary=self.boundary,
            primals=tuple(self.values[node].tensor for node in self.primals),
            constants=tuple(self.constants.values()),
            forward_outputs=self.forward_outputs,
            tangents=tuple(self.tangents),
            gradients=gradients,
            updated=self.updated,
        )

    def _name_gradients(self, gradients):
        """A tensor that is the gradient of two parameters is called that of the first."""
        for primal, gradient in zip(self.primals, gradients):
            parameter = self.values[primal].tensor
            if parameter is None or gradient.tensor is None:
                continue
            record = self.tensors.records[gradient.tensor]
            if (self.tensors.records[parameter]["role"] == "parameter"
                    and record["kind"] == "value" and "role" not in record):
                record["role"] = "gradient"
                record["gradient_of"] = parameter

    def _run_once(self, returned):
        """What is returned lies in the caller's memory, made once and written by nothing else."""
        records = self.tensors.records
        held = {records[result.tensor].get("alias_of", result.tensor)
                for result in returned if result.tensor is not None}
        for index in held:
            if records[index]["kind"] == "value":
                records[index]["bytes"] = 0
        for op in self.ops:
            if held.intersection(op["outputs"]):
                op["recomputable"] = False
            if "inplace" in op:
                op["inplace"] = [(output, source) for output, source in op["inplace"]
                                 if not held.intersection({op["outputs"][output],
                                                           op["inputs"][source]})]

    def _refuse_stale_reads(self):
        """Behind the boundary an overwritten primal has its new value; a gradient may want the old.
        """
        boundary = self.ops[self.boundary]
        overwritten = {boundary["inputs"][position] for position in boundary.get("mutates", ())}
        records = self.tensors.records
        for op, node in zip(self.ops[self.boundary + 1:], self.nodes[self.boundary + 1:]):
            if op["outputs"] and all("alias_of" in records[index] for index in op["outputs"]):
                continue  # reads no bytes; the readers of the views are looked at in turn
            for index in op["inputs"]:
                storage = records[index].get("alias_of", index)
                if storage in overwritten:
                    raise InputError(
                        f"The gradient needs the old value of {records[storage]['name']}, which "
                        f"the forward pass overwrites{at_user_line(node)}. Compute with a clone of "
                        f"it.")


def _argument(node, name):
    """The argument of that name of a call, None when it has none."""
    for index, argument in enumerate(node.target._schema.arguments):
        if argument.name == name:
            return node.args[index] if index < len(node.args) else node.kwargs.get(name)
    return None


def _require_pure(node):
    """Refuses what is no call of an op, or one that does more than return its results."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        raise InputError(f"{target} is no ATen op, so nothing is known of what it reads and "
                         f"writes{at_user_line(node)}.")
    has_tensors = any("Tensor" in str(result.real_type) for result in target._schema.returns)
    if target._schema.is_mutable or target.namespace == "_c10d_functional":
        raise InputError(f"{target} writes its arguments; only ops that leave them as they are can "
                         f"run again{at_user_line(node)}.")
    if not has_tensors:
        raise InputError(f"{target} makes no tensor: it is called for its effect or for a value "
                         f"that depends on data, and neither can be planned{at_user_line(node)}.")
