"""What a graph file cannot hold is refused, with the line of the user's code."""

import lowtide
import pytest
import torch
from joint_capture import compile_step

pytestmark = pytest.mark.usefixtures("one_thread")


def refusal(function, *inputs, dynamic=False):
    """What the capture says of a function that it cannot write."""
    torch._dynamo.reset()
    compiled, _ = compile_step(function)
    if dynamic:
        compiled = torch.compile(function, backend=compile_step(function)[1], dynamic=True)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        compiled(*inputs)
    assert isinstance(caught.value.inner_exception, lowtide.InputError)
    return str(caught.value.inner_exception)


def eighths(x):
    return x.to(torch.float8_e4m3fn).to(torch.float32) + x


@torch.library.custom_op("lowtide_test::fill_with_ones", mutates_args=("x",))
def fill_with_ones(x: torch.Tensor) -> None:
    x.fill_(1)


def writes(x):
    y = x * 2
    fill_with_ones(y)
    return y + x


@pytest.mark.parametrize("function, said", [
    (eighths, "torch.float8_e4m3fn"),
    (writes, "auto_functionalized"),
])
def test_what_a_graph_cannot_hold_is_refused_at_the_line(function, said):
    message = refusal(function, torch.randn(8, requires_grad=True))
    assert said in message
    assert "test_capture_refusals.py" in message and f"in {function.__name__}" in message


def test_symbolic_shapes_are_refused():
    message = refusal(lambda x: x.view(-1) * 2, torch.randn(3, 4, requires_grad=True),
                      dynamic=True)
    assert "dynamic=False" in message
