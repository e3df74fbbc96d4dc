"""Random programs of views, writes and arithmetic: captured, they give PyTorch's bits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_capture import compile_function, interpret

pytestmark = pytest.mark.usefixtures("one_thread")

# Each takes and returns a tensor; what is written in place is a value of the program.
VIEWS = {
    "transpose": lambda x: x.transpose(0, -1),
    "flatten": lambda x: x.flatten(),
    "expand": lambda x: x.unsqueeze(0).expand(2, *x.shape),
    "half": lambda x: x[: (x.shape[0] + 1) // 2],
    "step": lambda x: x[::2],
    "last": lambda x: x[-1:],
    "chunk": lambda x: x.chunk(2, -1)[-1],
    "diagonal": lambda x: x.diagonal() if x.dim() > 1 else x,
    "detour": lambda x: x.reshape(-1).view(x.shape),
    "detach": lambda x: x + x.detach(),
}
ARITHMETIC = {
    "double": lambda x: x * 2,
    "sigmoid": lambda x: x.sigmoid(),
    "relu": lambda x: x.relu(),
    "square": lambda x: x * x,
    "centre": lambda x: x - x.mean(),
    "sum": lambda x: x.sum(0, keepdim=True),
    "twice": lambda x: torch.cat([x, x.neg()]),
    "drop": lambda x: torch.nn.functional.dropout(x, 0.5),
    "where": lambda x: torch.where(x > 0, x, 0.25),
    "softmax": lambda x: x.softmax(-1),
}
WRITES = {
    "add": lambda x: x.add_(1),
    "fill": lambda x: x.fill_(0.5),
    "scale": lambda x: x.mul_(3),
    "copy": lambda x: x.copy_(x.detach().flip(0) * 2),
    "zero": lambda x: x.zero_(),
}


@st.composite
def programs(draw):
    """Steps (kind, name, of which earlier value); writes only go to copies."""
    steps = []
    for count in range(1, draw(st.integers(2, 7))):
        kind = draw(st.sampled_from(["view", "view", "arithmetic", "write"]))
        names = {"view": VIEWS, "arithmetic": ARITHMETIC, "write": WRITES}[kind]
        steps.append((kind, draw(st.sampled_from(sorted(names))), draw(st.integers(0, count))))
    return steps


def run(steps, x, w):
    values = [x, x * w]
    for kind, name, source in steps:
        value = values[min(source, len(values) - 1)]
        if kind == "view":
            values.append(VIEWS[name](value))
        elif kind == "arithmetic":
            values.append(ARITHMETIC[name](value))
        else:
            written = value.clone()
            view = written[..., :1]
            WRITES[name](view)
            values.append(written)
    return values[-1].clone(), sum(value.sum() for value in values)


def step(function, steps):
    torch.manual_seed(3)
    x, w = (torch.randn(4, 3, requires_grad=True) for _ in range(2))
    torch.manual_seed(5)
    result, loss = function(x, w)
    (loss * 2 + result.square().sum()).backward()
    return [result, loss, x.grad, w.grad]


@settings(max_examples=12, deadline=None)
@given(programs())
def test_random_programs_give_the_bits_of_pytorch(steps):
    compiled, recorder = compile_function(lambda x, w: run(steps, x, w))
    results = step(compiled, steps)
    for ours, theirs in zip(results, step(lambda x, w: run(steps, x, w), steps), strict=True):
        torch.testing.assert_close(ours, theirs)  # PyTorch may trace other kernels than it runs

    region, = recorder.regions
    torch.manual_seed(5)
    outputs, gradients = interpret(region)
    for ours, theirs in zip(outputs + gradients, region.results + region.gradients, strict=True):
        assert torch.equal(ours, theirs)
