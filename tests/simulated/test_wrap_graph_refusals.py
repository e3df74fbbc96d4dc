"""What cannot be recorded as a graph of the device: refused, with the line and the reason."""

import lowtide
import pytest
import torch
from graph_cases import DEVICE, Mixed, Peeking, built, loss_of, steps, wrapped_of
from torch import nn

pytestmark = [pytest.mark.usefixtures("own_cache"),
              pytest.mark.skipif(not hasattr(torch.accelerator, "Graph"),
                                 reason="this PyTorch has no device-independent graphs")]


def recorded_from_outside(call, stream):
    """A graph of the program's own."""
    graph = torch.accelerator.Graph()
    with torch.simulated.stream(stream):
        graph.capture_begin()
        try:
            call()
        finally:
            graph.capture_end()
    return graph


FROM_OUTSIDE = r"graph of the device is recorded.*wrap\(\.\.\., cuda_graph=True\) records each"


@pytest.mark.filterwarnings("ignore:The graph is empty")
@pytest.mark.parametrize("own, example", [(False, True), (True, True), (False, False)])
def test_passes_are_not_recorded_from_outside(own, example):
    model = built(Mixed)
    x = model.input().to(DEVICE)
    wrapped = lowtide.wrap(model, x if example else None, time_limit=0.3, cuda_graph=own)
    stream = torch.simulated.Stream()
    stream.wait_stream(torch.simulated.current_stream())
    with pytest.raises(lowtide.Error, match=FROM_OUTSIDE):
        recorded_from_outside(lambda: wrapped(x), stream)
    with torch.simulated.stream(stream):
        loss = loss_of(wrapped(x))
    with pytest.raises(lowtide.Error, match=FROM_OUTSIDE):
        recorded_from_outside(loss.backward, stream)


def test_a_call_without_gradients_is_recorded_from_outside():
    wrapped = lowtide.wrap(built(Mixed), built(Mixed).input().to(DEVICE), time_limit=0.3).eval()
    x = wrapped.input().to(DEVICE)
    results = []
    with torch.no_grad():
        wanted = wrapped(x).cpu()
        graph = recorded_from_outside(lambda: results.append(wrapped(x)), torch.simulated.Stream())
        graph.replay()
    assert torch.equal(results[0].cpu(), wanted)


def test_an_op_that_makes_the_host_wait_is_refused_with_its_line():
    """By wrap(); without example inputs in the second step."""
    match = r"(?s)lowtide_test::peeks.*not permitted.*the line that is named.*cuda_graph"
    with pytest.raises(lowtide.Error, match=match):
        wrapped_of(Peeking)
    wrapped = wrapped_of(Peeking, None, example=False)
    passes = steps(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.05))
    next(passes)
    with pytest.raises(lowtide.Error, match=match):
        next(passes)


def test_rows_that_are_scaled_to_a_norm_are_refused():
    """How much memory that takes depends on the indices."""
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = nn.Embedding(30, 16, max_norm=1.0)

        def forward(self, indices):
            return self.rows(indices).sum()

        def input(self, size=8):
            return torch.randint(30, (size,))

    with pytest.raises(lowtide.Error, match="embedding_renorm_, for which the host waits"):
        wrapped_of(Scaled)


def test_the_cpu_is_refused():
    model = nn.Linear(4, 4)
    with pytest.raises(lowtide.InputError, match="the CPU .*no graphs"):
        lowtide.wrap(model, torch.ones(2, 4), cuda_graph=True)


def test_inductors_mode_is_refused():
    with pytest.raises(lowtide.InputError, match="mode=\"executor\""):
        lowtide.wrap(built(Mixed), None, cuda_graph=True, mode="inductor")
