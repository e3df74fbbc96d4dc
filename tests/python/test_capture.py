"""Joint graphs as lowtide graphs: executed, they give PyTorch's bits."""

import pytest
import torch
from capture_cases import CASES, build, capture_case, compiled_step, step
from joint_by_hand import JointByHand
from joint_capture import compile_step, interpret
from lowtide.pytorch.capture import from_joint
from lowtide.pytorch.capture.module_path import module_of

pytestmark = pytest.mark.usefixtures("one_thread")


def assert_same_bits(ours, theirs, what):
    assert type(ours) is type(theirs), what
    if isinstance(theirs, torch.Tensor):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs), (
            what, (ours.double() - theirs.double()).abs().max())
    else:
        assert ours == theirs, what


@pytest.mark.parametrize("name", CASES)
def test_document_gives_the_bits_of_pytorch(name):
    region, results = compiled_step(name)
    module, inputs = build(name)
    for key, value in step(module, module, inputs).items():
        assert_same_bits(results[key], value, key)

    assert region.captured.graph.executable
    torch.manual_seed(7)
    outputs, gradients = interpret(region)
    for i, (ours, theirs) in enumerate(zip(outputs, region.results, strict=True)):
        assert_same_bits(ours, theirs, f"forward output {i}")
    for i, (ours, theirs) in enumerate(zip(gradients, region.gradients, strict=True)):
        assert_same_bits(ours, theirs, f"gradient {i}")


@pytest.mark.parametrize("name", CASES)
def test_nodes_are_those_of_the_ops(name):
    captured, document = capture_case(name)
    assert len(captured.nodes) == len(document["ops"])
    for node, op in zip(captured.nodes, document["ops"]):
        if node is not None:
            assert node.op == "call_function"
            path, _, own = op["name"].rpartition(".")
            assert own == node.name and path == module_of(node)[0]
    assert len(set(captured.nodes)) == len(captured.nodes)


def test_primals_that_share_a_storage_count_once():
    base = torch.randn(12)
    parts = base[:6].requires_grad_(), base[6:]
    compiled, recorder = compile_step(lambda a, b: (a * b).sum())
    compiled(*parts).backward()
    captured = recorder.regions[0].captured
    assert captured.graph.resident_bytes == base.untyped_storage().nbytes()


def test_an_op_of_another_library_runs_once():
    @torch.library.custom_op("lowtide_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x):
        return torch.empty_like(x)

    joint = JointByHand(torch.empty(4))
    x, buffer = joint.primal(torch.empty(4)), joint.primal(torch.empty(4))
    y = joint.call(torch.ops.lowtide_test.twice.default, x)
    gradient = joint.call(torch.ops.aten.mul.Tensor, joint.tangent, buffer)
    captured = from_joint(joint.returning([y], [gradient]), 1, name="step", updated=[],
                          primal_roles=["input", "buffer"], primal_names=["x", "buffer"])
    assert [op.recomputable for op in captured.graph.ops] == [False, False, True]
