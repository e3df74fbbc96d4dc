"""Batch norms that update their running statistics in place."""

import json

import pytest
import torch
from capture_cases import capture_case, compiled_step, ops_of
from joint_by_hand import JointByHand
from lowtide.pytorch.capture import batch_norm, from_joint
from plan_by_hand import rule_against_another_run

pytestmark = pytest.mark.usefixtures("one_thread")


def test_batch_norm_updates_its_statistics_in_place():
    captured, document = capture_case("convolution and batch norm")
    (index, norm), = ops_of(document, "aten::native_batch_norm")
    statistics = [norm["inputs"][position] for position in norm["mutates"]]
    assert len(norm["outputs"]) == 3
    assert {output.tensor for output in captured.forward_outputs} >= set(statistics)
    assert {captured.primals.index(statistic) for statistic in statistics} < {*captured.updated}
    assert not ops_of(document, "aten::_native_batch_norm_legit_functional")
    # Nothing forbids it to run again for the gradients.
    assert rule_against_another_run(captured.graph, index, captured.boundary) is None


def test_a_batch_norm_used_twice_updates_twice():
    captured, document = capture_case("a batch norm used twice")
    first, second = (op for _, op in ops_of(document, "aten::native_batch_norm"))
    assert [first["inputs"][i] for i in first["mutates"]] == [
        second["inputs"][i] for i in second["mutates"]]


def test_what_eager_leaves_to_cudnn_is_recorded_as_its_op(monkeypatch):
    _, plain = capture_case("convolution and batch norm")
    monkeypatch.setattr(batch_norm, "is_by_cudnn", lambda node: True)
    captured = compiled_step.__wrapped__("convolution and batch norm")[0].captured
    document = json.loads(captured.graph.format())
    for traced, recorded in (("aten::native_batch_norm", "lowtide::cudnn_batch_norm"),
                             ("aten::native_batch_norm_backward",
                              "lowtide::cudnn_batch_norm_backward")):
        (_, before), = ops_of(plain, traced)
        (_, after), = ops_of(document, recorded)
        assert {**before, "type": recorded} == after
        names = [[argument.name for argument in op._schema.arguments] for op in (
            getattr(getattr(torch.ops, library), name).default
            for library, name in (traced.split("::"), recorded.split("::")))]
        assert names[0] == names[1]


def test_statistics_in_place_wait_for_those_who_read_the_old():
    captured, document = capture_case("old statistics read")
    (copied, _), = ops_of(document, "aten::clone")
    (norm, _), = ops_of(document, "aten::native_batch_norm")
    assert copied < norm
    assert rule_against_another_run(captured.graph, copied, norm) == "stale_input"


def norm_graph(read_behind, returns_mean=True):
    """A joint graph by hand: a batch norm of primals_1 that updates primals_2 and primals_3.

    `read_behind`: another op reads the mean behind it, "old" or "new".
    """
    aten = torch.ops.aten
    joint = JointByHand(torch.empty(4, 5))
    x, mean, variance = (joint.primal(torch.empty(shape)) for shape in ((4, 5), 5, 5))
    y, _, _, new_mean, new_variance = joint.call(
        aten._native_batch_norm_legit_functional.default, x, None, None, mean, variance, True, 0.1,
        1e-5)
    z = joint.call(aten.add.Tensor, y, {"old": mean, "new": new_mean}[read_behind])
    gradient = joint.call(aten.mul.Tensor, joint.tangent, 2)
    return joint.returning([new_mean if returns_mean else y, new_variance, z], [gradient])


@pytest.mark.parametrize("how, updated, in_place", [
    (dict(read_behind="new"), [1, 2], True),
    (dict(read_behind="old"), [1, 2], False),
    (dict(read_behind="new"), [1], False),  # the variance is not the module's
    (dict(read_behind="new"), [], False),
    (dict(read_behind="new", returns_mean=False), [1, 2], False),
])
def test_statistics_are_only_updated_in_place_where_nobody_can_tell(how, updated, in_place):
    captured = from_joint(norm_graph(**how), 3, name="step", updated=updated,
                          primal_roles=["input", "buffer", "buffer"],
                          primal_names=["x", "mean", "variance"])
    norm = captured.graph.ops[0]
    assert norm.type.endswith("native_batch_norm") == in_place
    assert norm.mutates == ([1, 2] if in_place else [])
    assert len(norm.outputs) == (3 if in_place else 5)
