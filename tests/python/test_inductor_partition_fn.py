"""The partitioner alone, on graphs as Inductor gets them, run op by op."""

import math
from collections import Counter
from operator import getitem

import lowtide
import pytest
import torch
from joint_graphs import Cell, compiled, gradients
from lowtide.pytorch.inductor import PlannedPartition
from lowtide.pytorch.inductor.predict.nodes import computed_again
from lowtide.pytorch.inductor.split.joint import Joint, is_exact
from lowtide.pytorch.joint_graph.views import is_view
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch._functorch.partitioners import (
    default_partition,
    min_cut_rematerialization_partition,
)
from torch._inductor.decomposition import select_decomp_table

pytestmark = pytest.mark.usefixtures("one_thread")


def batch():
    return (torch.randn(512, 16, generator=torch.Generator().manual_seed(0)),)


def halves_of(partitioner):
    """Results of a step, and the two graphs."""
    torch.manual_seed(0)
    module, graphs = Cell(), []

    def partition(*inputs, **given):
        graphs.extend(partitioner(*inputs, **given))
        return tuple(graphs)

    run = compiled(module, partition, decompositions=select_decomp_table())
    return gradients(module, run, batch()), graphs


def computed(graph):
    return Counter(node.target for node in graph.graph.nodes
                   if node.op == "call_function" and not is_view(node)
                   and node.target is not getitem)


def saved_bytes(backward):
    values = [node.meta["val"] for node in backward.graph.find_nodes(op="placeholder")]
    storages = {value.untyped_storage()._cdata: value.untyped_storage().nbytes()
                for value in values}
    return sum(storages.values())


def test_without_a_limit_it_is_the_partition_of_pytorch():
    wanted, theirs = halves_of(min_cut_rematerialization_partition)
    got, ours = halves_of(PlannedPartition("100%", time_limit=0.3))
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    for mine, other in zip(ours, theirs):
        assert computed(mine) == computed(other)
    assert saved_bytes(ours[1]) <= saved_bytes(theirs[1])


def test_within_a_budget_more_is_computed_and_less_saved():
    wanted, theirs = halves_of(min_cut_rematerialization_partition)
    got, ours = halves_of(PlannedPartition("85%", time_limit=0.3))
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    assert len(computed_again(ours)) > len(computed_again(theirs))
    assert saved_bytes(ours[1]) < saved_bytes(theirs[1])


def test_what_the_backward_computes_of_saved_values_alone_is_not_computed_again():
    """The derivative of tanh is made of its result, and of no tangent."""
    found = []

    def partition(*inputs, **given):
        found.append(default_partition(*inputs, **given))
        return found[0]

    module = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
    gradients(module, compiled(module, partition, decompositions=select_decomp_table()), batch())
    assert torch.ops.aten.sub.Tensor in computed(found[0][1])
    assert computed_again(found[0]) == []


def test_updates_are_done_in_the_forward():
    """As for Inductor, for which AOTAutograd leaves them in the graph; here it is not run."""
    halves = []

    def partition(*inputs, **given):
        halves.extend(PlannedPartition("100%", time_limit=0.3)(*inputs, **given))
        raise NotImplementedError

    with pytest.raises(BackendCompilerFailed, match="NotImplementedError"):
        compiled(Cell(), partition, keep_inference_input_mutations=True,
                 decompositions=select_decomp_table())(*batch())
    forward, backward = halves
    (update,) = [node for node in forward.graph.nodes
                 if node.target is torch.ops.aten.copy_.default]
    assert update.args[0].op == "placeholder" and update.args[1].target is torch.ops.aten.add.Tensor
    output = forward.graph.output_node()
    saved = len(backward.graph.find_nodes(op="placeholder")) - 1
    assert len(output.args[0]) == 1 + saved
    described = [output.meta.get(key) for key in ("desc", "output_stack_traces")]
    assert {len(values) for values in described if values is not None} == {1 + saved}


def test_an_impossible_budget_is_refused_or_the_smallest_taken():
    def refused(*inputs, **given):
        with pytest.raises(lowtide.InfeasibleError):
            PlannedPartition(1000, time_limit=0.3)(*inputs, **given)
        smallest = PlannedPartition(1000, time_limit=0.3, over=math.inf)
        halves = smallest(*inputs, **given)
        assert smallest.found.expected_bytes > 1000 and not smallest.found.fits
        return halves

    wanted, _ = halves_of(min_cut_rematerialization_partition)
    got, _ = halves_of(refused)
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.second(self.drop(self.first(x).tanh()).exp()).sin()


def test_a_split_of_pytorch_that_draws_twice_is_told_apart():
    """Its gradients are those of two masks, which is why it is no candidate."""
    exact = {}
    for fraction in (1.0, 0.0):
        def partition(joint, inputs, *, num_fwd_outputs, **_):
            halves = Joint(joint, inputs, num_fwd_outputs, []).torch_split(fraction)
            exact[fraction] = is_exact(halves)
            return halves

        torch.manual_seed(0)
        module = Dropped()
        got = gradients(module, compiled(module, partition), batch())
        torch.manual_seed(0)
        wanted = gradients(module, module, batch())
        same = all(torch.allclose(a, b) for a, b in zip(got, wanted, strict=True))
        assert exact[fraction] == same
    assert exact == {1.0: True, 0.0: False}


def found_within(budget, **given):
    partition = PlannedPartition(budget, time_limit=0.3, **given)
    halves_of(partition)
    return partition.found


def test_no_split_of_pytorch_that_fits_is_faster():
    """By the estimates, within what the smallest split of PyTorch's takes."""
    theirs = found_within("80%", only_pytorch=True, over=math.inf)
    ours = found_within(theirs.expected_bytes)
    assert theirs.name.startswith("PyTorch's split at") and theirs.rival is None
    assert ours.fits and ours.overhead <= theirs.overhead
    assert ours.planned is None or ours.overhead <= ours.rival.overhead <= theirs.overhead
