"""Captures what torch.compile traces, and runs the document beside what PyTorch runs."""

import dataclasses
import json

import torch
from interpreter import DTYPES, call
from lowtide.pytorch.capture import (
    BOUNDARY,
    eager_kernels,
    from_joint,
)
from lowtide.pytorch.joint_graph.primals import mutated_primals
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import aot_function, make_boxed_func
from torch._functorch.partitioners import default_partition

#: What such an op makes lies in a copy of all that its input is a view of.
COPIES_STORAGES = {"aten::copy"}


@dataclasses.dataclass
class Region:
    """One joint graph: what was captured and what went through it in one step."""

    captured: object
    primals: list = None
    results: list = None  # forward outputs, without what is saved for the backward pass
    tangents: list = None
    gradients: list = None


class Recorder:
    """A backend for torch.compile that runs as usual and keeps a Region per joint graph."""

    def __init__(self):
        self.regions = []

    def __call__(self, module, inputs):
        compilers = dict(fw_compiler=self._forward, bw_compiler=self._backward)
        with eager_kernels():
            return aot_autograd(partition_fn=self._partition, **compilers)(module, inputs)

    def _partition(self, joint, joint_inputs, *, num_fwd_outputs, **options):
        names = [f"primal {index}" for index in range(len(joint_inputs[0]))]
        captured = from_joint(joint, num_fwd_outputs, name="step", primal_names=names,
                              primal_roles=["input"] * len(names), updated=mutated_primals(joint))
        self.regions.append(Region(captured))
        return default_partition(joint, joint_inputs, num_fwd_outputs=num_fwd_outputs, **options)

    def _forward(self, module, inputs):
        region = self.regions[-1]

        def run(*arguments):
            region.primals = [copy(argument) for argument in arguments]
            results = module(*arguments)
            region.results = [copy(r) for r in results[:len(region.captured.forward_outputs)]]
            return results

        return make_boxed_func(run)

    def _backward(self, module, inputs):
        # Backward graphs are compiled behind their forward graphs, in turn.
        region = self.regions[-1]

        def run(*arguments):
            count = len(region.captured.tangents)
            region.tangents = [copy(a) for a in arguments[len(arguments) - count:]]
            results = module(*arguments)
            region.gradients = [copy(result) for result in results]
            return results

        return make_boxed_func(run)


def compile_function(function):
    """The same without Dynamo, for functions of tensors alone."""
    recorder = Recorder()
    compiled = aot_function(function, recorder._forward, recorder._backward,
                            partition_fn=recorder._partition)

    def run(*arguments):
        with eager_kernels():  # the first call traces
            return compiled(*arguments)

    return run, recorder


def copy(value):
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def compile_step(function):
    recorder = Recorder()
    torch._dynamo.reset()
    return torch.compile(function, backend=recorder, dynamic=False), recorder


@torch.no_grad()
def interpret(region):
    """Runs the document with the region's primals and tangents, each op once in order.

    Checks what the document says of each result: its type, whose storage it lies in, how many bytes
    that has. Returns forward outputs and gradients.
    """
    captured = region.captured
    document = json.loads(captured.graph.format())
    tensors = document["tensors"]
    values = {index: copy(value) for index, value in zip(captured.primals, region.primals)
              if index is not None}
    values |= {index: copy(value) for index, value in captured.constants}
    handed = {tensors[output.tensor].get("alias_of", output.tensor)
              for output in captured.forward_outputs if output.tensor is not None}
    outputs = None
    for op in document["ops"]:
        inputs = [values[index] for index in op["inputs"]]
        if op["type"] == BOUNDARY:
            outputs = [copy(resolve(output, values)) for output in captured.forward_outputs]
            values |= zip(captured.tangents, region.tangents)
            continue
        for index, result in zip(op["outputs"], call(op, inputs), strict=True):
            check_result(op, tensors, index, result, values)
            check_bytes(op, tensors[index], result, index in handed)
            values[index] = result
    return outputs, [resolve(output, values) for output in captured.gradients]


def resolve(output, values):
    return output.literal if output.tensor is None else values[output.tensor]


def check_bytes(op, said, result, is_handed):
    """What is returned lies in the caller's memory and takes none of the plan's."""
    if "alias_of" in said or op["type"] in COPIES_STORAGES:
        return
    assert said["bytes"] == (0 if is_handed else result.untyped_storage().nbytes()), (op, said)


def check_result(op, tensors, index, result, values):
    said = tensors[index]
    assert list(result.shape) == said["shape"], (op["name"], result.shape, said)
    assert result.dtype == DTYPES[said["dtype"]], (op["name"], result.dtype, said)
    strides = said.get("strides") or list(torch.empty(said["shape"], device="meta").stride())
    # The stride of a dimension of one element says nothing, and kernels differ in it.
    assert all(
        size == 1 or ours == theirs for size, ours, theirs
        in zip(said["shape"], strides, result.stride())), (op["name"], result.stride(), said)
    sharing = {tensors[other].get("alias_of", other) for other, value in values.items()
               if value.untyped_storage()._cdata == result.untyped_storage()._cdata}
    assert sharing == ({said["alias_of"]} if "alias_of" in said else set()), (op, said, sharing)
