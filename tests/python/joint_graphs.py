"""Joint graphs of small modules as AOTAutograd makes them, and plans' executions made by hand."""

import torch
from functorch.compile import nop
from torch import nn
from torch._dynamo.backends.common import aot_autograd


class Chain(nn.Module):
    """Linear layers and activations: each product is worth keeping, and can be made again."""

    def __init__(self, width=32, depth=5):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class Cell(nn.Module):
    """A counter that the module updates, views, and pointwise ops that are cheap to make again:
    PyTorch has splits of it that take less."""

    def __init__(self, steps=2):
        super().__init__()
        self.steps = steps
        self.first, self.second = nn.Linear(16, 48), nn.Linear(16, 16)
        self.register_buffer("mean", torch.zeros(16))

    def forward(self, x):
        a, b, c = self.first(x).chunk(3, -1)
        y = (a.sigmoid() * b.tanh() + c).relu()
        self.mean.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        for _ in range(self.steps):
            y = self.second(y * self.second(y).sin()).tanh()
        return y


def compiled(module, partition_fn, **options):
    """The module run by AOTAutograd with its graphs as they are, split by ``partition_fn``."""
    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=nop, bw_compiler=nop, partition_fn=partition_fn, **options)
    return torch.compile(module, backend=backend, fullgraph=True, dynamic=False)


def sides(joint, num_fwd_outputs):
    """The ops of a joint graph in its order: those behind the first tangent, and those before."""
    tangents = {n for n in joint.graph.nodes if n.op == "placeholder" and "tangents" in n.target}
    (output,) = joint.graph.find_nodes(op="output")
    needed = set(output.args[0][:num_fwd_outputs])
    for node in reversed(joint.graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    forward, backward, begun = [], [], False
    for node in joint.graph.nodes:
        if node.op != "call_function":
            continue
        begun = begun or any(read in tangents for read in node.all_input_nodes)
        if node.target.__name__ != "getitem":
            (backward if begun and node not in needed else forward).append(node)
    return forward, backward


def keep_all(joint, num_fwd_outputs):
    """Every op once."""
    forward, backward = sides(joint, num_fwd_outputs)
    return [*forward, None, *backward]


def again_before_each(joint, num_fwd_outputs, may_run_again):
    """Before each backward op all that it needs of the forward, as far as that may run again."""
    forward, backward = sides(joint, num_fwd_outputs)
    executions = [*forward, None]
    for node in backward:
        needed = {node}
        for before in reversed(forward):
            if any(before in _sources(n) for n in needed) and may_run_again(before):
                needed.add(before)
        executions += [before for before in forward if before in needed]
        executions.append(node)
    return executions


def _sources(node):
    return {read.args[0] if read.target.__name__ == "getitem" else read
            for read in node.all_input_nodes if read.op == "call_function"}


def gradients(module, run, inputs, seed=0):
    """Loss, gradients and buffers of one step of ``run``, which is the module in another form."""
    module.zero_grad()
    torch.manual_seed(seed)
    loss = run(*inputs).square().mean()
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in module.parameters()),
            *(b.clone() for b in module.buffers())]
