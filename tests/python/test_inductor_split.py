"""Splitting a joint graph by a plan: the same bits, and the executions that were asked for."""

from collections import Counter
from operator import getitem

import lowtide
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_graphs import again_before_each, compiled, gradients, keep_all, sides
from lowtide.pytorch.inductor.predict.nodes import is_random
from lowtide.pytorch.inductor.split.split import split
from lowtide.pytorch.joint_graph.views import is_view
from torch import nn

pytestmark = pytest.mark.usefixtures("one_thread")


class Branches(nn.Module):
    """Views of one value, a value used far apart, batch norm, dropout, and an op of two outputs."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(8, 6)

    def forward(self, x):
        x = self.drop(self.norm(self.first(x)).relu())
        a, b = (x * 1.5).flatten(1).split(32, 1)
        y = self.last((a * b.sigmoid()).view(-1, 4, 8)).tanh()
        values, _ = y.max(1)
        return values.exp() + x.mean()


def batch():
    return (torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(1)),)


def may_run_again(node):
    """Not what draws random numbers, nor what updates statistics, which are new by then."""
    norm = torch.ops.aten._native_batch_norm_legit_functional.default
    return not is_random(node) and node.target is not norm


def run_with(make_executions):
    """One step with the executions; loss, gradients, statistics, and the two graphs."""
    torch.manual_seed(0)
    module, graphs = Branches(), []

    def partition(joint, _inputs, *, num_fwd_outputs, **_):
        executions = make_executions(joint, num_fwd_outputs)
        graphs.extend([*split(joint, executions, num_fwd_outputs), joint, executions])
        return tuple(graphs[:2])

    return gradients(module, compiled(module, partition), batch()), graphs


def calls(graph):
    return [n for n in graph.graph.nodes if n.op == "call_function"]


@pytest.fixture(scope="module")
def reference():
    """Without recomputation, by PyTorch's own partitioner."""
    torch.manual_seed(0)
    module = Branches()
    from torch._functorch.partitioners import default_partition
    return gradients(module, compiled(module, default_partition), batch())


def same_bits(ours, theirs):
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_keep_all_is_the_joint_graph(reference):
    ours, (_, backward, joint, _) = run_with(keep_all)
    assert same_bits(ours, reference)
    assert all(is_view(node) for node in calls(backward) if "again" in node.name)
    assert {n.target for n in calls(backward)} <= {n.target for n in calls(joint)}


def test_everything_again_has_the_same_bits(reference):
    ours, (forward, backward, _, executions) = run_with(
        lambda joint, n: again_before_each(joint, n, may_run_again))
    assert same_bits(ours, reference)
    boundary = executions.index(None)
    ran_again = Counter(n.target for n in executions[boundary + 1:]
                        if n in executions[:boundary] and not is_view(n))
    assert Counter(n.target for n in calls(backward)
                   if "again" in n.name and n.target is not getitem
                   and not is_view(n)) == ran_again
    assert any("again_2" in n.name for n in calls(backward))
    dropout = torch.ops.aten.native_dropout.default
    assert [n.target for n in calls(forward) + calls(backward)].count(dropout) == 1


def test_saved_is_what_the_backward_reads_and_no_view():
    _, (forward, backward, joint, executions) = run_with(keep_all)
    inputs = [n.name for n in backward.graph.find_nodes(op="placeholder")]
    behind = executions[executions.index(None) + 1:]
    made = {n for e in behind for n in [e, *e.users]}
    read = {r for e in behind for r in e.all_input_nodes if r not in made}
    direct = {n.name for n in read if not is_view(n)}
    assert direct <= set(inputs)
    nodes = {n.name: n for n in joint.graph.nodes}
    assert not any(is_view(nodes[name]) for name in inputs)
    outputs = forward.graph.find_nodes(op="output")[0]
    saved = [n.name for n in outputs.args[0][-len(inputs) + 1:]]
    assert saved == inputs[:-1] and inputs[-1] == "tangents_1"
    assert len(outputs.meta["desc"]) == len(outputs.args[0])


def test_a_saved_value_may_be_made_again_after_it_was_read(reference):
    """The second execution, which nothing reads, is left out; the saved value is not."""
    def executions(joint, n):
        made = keep_all(joint, n)
        return [*made, *(node for node in made[:made.index(None)] if may_run_again(node))]

    ours, (_, backward, _, _) = run_with(executions)
    assert same_bits(ours, reference)
    assert all(is_view(node) for node in calls(backward) if "again" in node.name)


@settings(deadline=None, max_examples=8)
@given(st.randoms(use_true_random=False))
def test_any_executions_have_the_same_bits(reference, random):
    """Some backward ops get some of what they need made again, and forward ops run twice too."""
    def executions(joint, n):
        again = {node for node in sides(joint, n)[0] if random.random() < 0.6}
        made = again_before_each(joint, n, lambda node: node in again and may_run_again(node))
        boundary = made.index(None)
        twice = [node for node in made[:boundary] for _ in range(1 + may_run_again(node))]
        return twice + made[boundary:]

    ours, _ = run_with(executions)
    assert same_bits(ours, reference)


def test_the_nodes_tell_where_they_are():
    _, (forward, backward, _, _) = run_with(
        lambda joint, n: again_before_each(joint, n, may_run_again))
    for graph, tag in ((forward, "is_forward"), (backward, "is_backward")):
        for node in graph.graph.nodes:
            if node.op == "call_function":
                assert node.meta["partitioner_tag"] == tag and "val" in node.meta
    assert all("val" in n.meta for n in backward.graph.find_nodes(op="placeholder"))


@pytest.mark.parametrize("change, words", [
    (lambda made: [n for n in made if n is not None], "0 boundaries"),
    (lambda made: [*made, None], "2 boundaries"),
    (lambda made: made[1:], "before it is made"),
    (lambda made: [*made, next(n for n in made if n is not None and is_random(n))],
     "native_dropout"),
])
def test_what_is_no_plan_is_refused(change, words):
    raised = []

    def partition(joint, _inputs, *, num_fwd_outputs, **_):
        made = keep_all(joint, num_fwd_outputs)
        with pytest.raises(lowtide.InputError) as error:
            split(joint, change(made), num_fwd_outputs)
        raised.append(str(error.value))
        return split(joint, made, num_fwd_outputs)

    module = Branches()
    gradients(module, compiled(module, partition), batch())
    assert words in raised[0]
