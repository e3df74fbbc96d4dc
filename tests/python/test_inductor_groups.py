"""Graphs by kernels: what stays inside one takes no memory, and runs when its readers do."""

import lowtide
import pytest
import torch
from joint_graphs import Cell, compiled, gradients
from lowtide.pytorch.inductor.predict.estimate import group_cost, is_inlined
from lowtide.pytorch.inductor.predict.nodes import source
from lowtide.pytorch.inductor.predict.predict_peak import predict
from lowtide.pytorch.inductor.predict.rates import BYTES_PER_US, FLOPS_PER_US, pointwise_operations
from lowtide.pytorch.inductor.split.joint import Joint
from lowtide.pytorch.inductor.split.kernel_groups import KernelGroups
from lowtide.pytorch.joint_graph.views import is_view
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def cell():
    """The joint graph of a module, PyTorch's split of it, and that by kernels."""
    found = {}

    def partition(module, inputs, *, num_fwd_outputs, static_lifetime_input_indices, **_):
        joint = Joint(module, inputs, num_fwd_outputs, static_lifetime_input_indices or [])
        halves = joint.torch_split(1.0)
        found.update(joint=joint, halves=halves, planning=joint.kernel_graph(halves))
        return halves

    module = Cell()
    run = compiled(module, partition, decompositions=select_decomp_table())
    gradients(module, run, (torch.randn(512, 16),))
    return found


def test_an_op_is_a_kernel_and_every_node_is_in_one(cell):
    whole, kernels = cell["planning"].merged, cell["planning"].kernels
    groups = [group for group in kernels.groups if group is not None]
    ran = {node for group in groups for node in group}
    assert {source(node) for node in whole.joint.graph.nodes if node.op == "call_function"} == ran
    inside = {node for node in ran if is_inlined(node, frozenset())}
    assert inside and len(groups) < len(ran)
    assert not inside & {group[-1] for group in groups}
    assert all(node in inside or is_view(node) for group in groups for node in group[:-1])


def test_the_peak_of_a_plan_is_what_is_predicted_of_its_split(cell):
    """So that a plan is asked for what the budget leaves."""
    joint, planning = cell["joint"], cell["planning"]
    graph = planning.kernels.graph
    kept = lowtide.keep_all(graph)
    likely = predict(joint.split(planning, kept))
    assert likely.peak_bytes == pytest.approx(predict(cell["halves"]).peak_bytes, rel=0.05)
    expected = joint.resident_bytes + likely.peak_bytes
    assert lowtide.replay(graph, kept).peak_bytes == pytest.approx(expected, rel=0.1)


def products(x, weight):
    value = (x @ weight).sin()
    return (value * 2) @ weight, (value * 3) @ weight


@pytest.fixture(scope="module")
def by_hand():
    """Both products read what is made of one sine, each in a kernel of its own."""
    traced = make_fx(products, tracing_mode="fake")(torch.randn(8, 8), torch.randn(8, 8))
    nodes = {node.name: node for node in traced.graph.nodes}
    groups = [("mm",), ("sin", "mul"), ("mm_1",), ("sin", "mul_1"), ("mm_2",)]
    return KernelGroups(None, (*(tuple(nodes[name] for name in group) for group in groups), None))


@pytest.mark.parametrize("ops, names", [
    ([0, 1, 2, 3, 4], "mm sin mul mm_1 mul_1 mm_2"),  # once for both
    ([0, 1, 0, 3], "mm sin mul mm sin mul_1"),  # what it is made of is new
    ([0, 1, 5, 3], "mm sin mul | sin mul_1"),  # nothing inside a kernel is saved
    ([0, 1, 5, 1], "mm sin mul | sin mul"),
])
def test_what_is_inside_a_kernel_runs_when_its_readers_do(by_hand, ops, names):
    ran = by_hand.executions(ops)
    assert [node.name if node else "|" for node in ran] == names.split()


def test_a_kernel_reads_each_value_once_and_writes_the_last(by_hand):
    sin, mul = by_hand.groups[1]
    moved, arithmetic = 2 * 8 * 8 * 4, pointwise_operations(sin) + pointwise_operations(mul)
    assert group_cost((sin, mul)) == pytest.approx(moved / BYTES_PER_US
                                                   + arithmetic / FLOPS_PER_US)
    assert group_cost(by_hand.groups[0]) > 0
