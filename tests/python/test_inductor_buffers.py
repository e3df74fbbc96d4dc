"""What the buffers of a lowered graph take."""

import pytest
import torch
from lowtide.pytorch.inductor.lower.lowering import lowered
from torch.fx.experimental.proxy_tensor import make_fx

PART = 64 * 512 * 4


@pytest.mark.usefixtures("one_thread")
def test_of_a_saved_value_all_lies_in_memory_until_its_last_part_is_read():
    """Such as the gates of a recurrent layer, which one product makes."""
    def forward(primals_1, primals_2):
        return (primals_1 @ primals_2,)

    def backward(mm, primals_3):
        first, *others = mm.chunk(4, 1)
        result = first.tanh() @ primals_3
        for gate in others:
            result = (result + gate.tanh()) @ primals_3
        return (result,)

    halves = (make_fx(forward, tracing_mode="fake")(torch.randn(64, 512), torch.randn(512, 2048)),
              make_fx(backward, tracing_mode="fake")(torch.randn(64, 2048), torch.randn(512, 512)))
    assert lowered(halves).peak_bytes >= 4 * PART + 2 * PART
