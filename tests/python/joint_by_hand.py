"""Joint graphs written by hand, where a model would not make the one that a test wants."""

import operator

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree


class JointByHand:
    """Placeholders primals_1, ... and one tangent; calls of ops, traced with fake tensors."""

    def __init__(self, tangent):
        self._fake = FakeTensorMode()
        self._graph = torch.fx.Graph()
        self.primals = []
        self.tangent = self._placeholder("tangents_1", tangent)

    def primal(self, tensor):
        with self._graph.inserting_before(self.tangent):
            self.primals.append(self._placeholder(f"primals_{len(self.primals) + 1}", tensor))
        return self.primals[-1]

    def call(self, target, *args, **kwargs):
        """The node of a call; a list of nodes for an op with several results."""
        node = self._graph.call_function(target, args, kwargs)
        args, kwargs = pytree.tree_map(_traced, (args, kwargs))
        with self._fake:
            node.meta["val"] = target(*args, **kwargs)
        if isinstance(node.meta["val"], torch.Tensor):
            return node
        return [self._item(node, index) for index in range(len(node.meta["val"]))]

    def returning(self, results, gradients):
        """The whole; missing gradients are None."""
        missing = [None] * (len(self.primals) - len(gradients))
        self._graph.output([*results, *gradients, *missing])
        return torch.fx.GraphModule(torch.nn.Module(), self._graph)

    def _placeholder(self, name, tensor):
        node = self._graph.placeholder(name)
        node.meta["val"] = self._fake.from_tensor(tensor)
        return node

    def _item(self, node, index):
        item = self._graph.call_function(operator.getitem, (node, index))
        item.meta["val"] = node.meta["val"][index]
        return item


def _traced(argument):
    return argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument
