"""The boundary between forward and backward pass, and what lies in the caller's memory."""

import lowtide
import pytest
import torch
from capture_cases import CASES, capture_case
from joint_by_hand import JointByHand
from lowtide.pytorch.capture import BOUNDARY, from_joint
from plan_by_hand import rule_against_another_run

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("name", CASES)
def test_boundary_parts_forward_and_backward(name):
    captured, document = capture_case(name)
    boundary = document["ops"][captured.boundary]
    assert boundary["type"] == BOUNDARY and captured.nodes[captured.boundary] is None
    assert boundary["outputs"] == list(captured.tangents)
    assert all(document["tensors"][index]["bytes"] == 0 for index in captured.tangents)
    handed = {output.tensor for output in captured.forward_outputs} - {None}
    assert handed <= set(boundary["inputs"])
    assert [op["phase"] for op in document["ops"]] == (
        ["forward"] * captured.boundary
        + ["backward"] * (len(document["ops"]) - captured.boundary))
    assert document["outputs"] == list(dict.fromkeys(
        result.tensor for result in (*captured.forward_outputs, *captured.gradients)
        if result.tensor is not None))


@pytest.mark.parametrize("name", CASES)
def test_results_of_the_forward_pass_are_made_once_in_the_callers_memory(name):
    captured, document = capture_case(name)
    tensors, ops = document["tensors"], document["ops"]
    made = {index: op for op in ops for index in op["outputs"]}
    for output in captured.forward_outputs:
        if output.tensor is None:
            continue
        storage = tensors[output.tensor].get("alias_of", output.tensor)
        if tensors[storage]["kind"] == "resident":
            continue
        assert tensors[storage]["bytes"] == 0
        assert made[storage]["recomputable"] is False
        assert all(op["inputs"][source] != storage for op in ops
                   for _, source in op.get("inplace", ()))


def test_what_the_caller_overwrites_is_not_read_behind_the_boundary():
    captured, document = capture_case("a buffer updated by hand")
    boundary = document["ops"][captured.boundary]
    (mean,) = (captured.primals[index] for index in captured.updated)
    assert [boundary["inputs"][position] for position in boundary["mutates"]] == [mean]
    reader = next(i for i, op in enumerate(document["ops"]) if mean in op["inputs"])
    assert rule_against_another_run(captured.graph, reader, captured.boundary) == "stale_input"


def test_a_gradient_that_needs_an_overwritten_value_is_refused():
    joint = JointByHand(torch.empty(4))
    x, buffer = joint.primal(torch.empty(4)), joint.primal(torch.empty(4))
    new = joint.call(torch.ops.aten.add.Tensor, buffer, 1)
    y = joint.call(torch.ops.aten.mul.Tensor, x, buffer)
    gradient = joint.call(torch.ops.aten.mul.Tensor, joint.tangent, buffer)
    with pytest.raises(lowtide.InputError, match="old value of buffer"):
        from_joint(joint.returning([new, y], [gradient]), 2, name="step", updated=[1],
                   primal_roles=["input", "buffer"], primal_names=["x", "buffer"])
