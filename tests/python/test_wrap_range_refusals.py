"""Ranges of sizes that are refused: what they say, what is wrong and what to do."""

import lowtide
import pytest
import torch
from range_cases import BATCH, built, layers
from torch import nn
from torch.export import Dim

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


@pytest.mark.parametrize(("places", "message"), [
    ({"y": {0: Dim("batch", max=9)}}, "names an input 'y', and forward of Layers has x"),
    ({"x": {0: Dim("batch")}}, "no largest size"),
    ({"x": {0: None}}, "leaves no dimension open"),
    ({}, "leaves no dimension open"),
    ({"x": {0: 7}}, "give a torch.export.Dim"),
    ({"x": {0: Dim.AUTO}}, "give a torch.export.Dim"),
    ({"x": {0: 2 * Dim("batch", max=9)}}, "give a torch.export.Dim"),
    ({"x": {-1: Dim("batch", max=9)}}, "count them from 0"),
    ({"x": 7}, "a dict of dimensions or a sequence"),
    (7, "a dict by the names of the inputs"),
    (({0: Dim("batch", max=9)}, None), "2 entries, and forward takes 1"),
    ({"x": {0: Dim("batch", max=9), 1: Dim("batch", max=8)}}, "two Dims"),
    ({"x": {0: Dim("batch", max=1_000_000)}}, "at most 100000"),
])
def test_dynamic_shapes_that_say_no_ranges_are_refused(places, message):
    with pytest.raises(lowtide.InputError, match=message):
        lowtide.wrap(built(layers), dynamic_shapes=places)


@pytest.mark.parametrize(("places", "inputs", "message"), [
    ({"x": {2: Dim("batch", max=9)}}, torch.randn(3, 16), "leaves dimension 2 of x open"),
    ({"x": {0: Dim("batch", min=4, max=9)}}, torch.randn(3, 16), "input of Layers has batch=3"),
    ({"x": {0: Dim("batch", min=4, max=9)}}, torch.randn(10, 16), "begin with an input within"),
    ({"x": {1: Dim("width", min=4, max=19)}}, torch.randn(3, 16), "cannot run at width=19"),
    ({"x": {1: Dim("width", min=4, max=16)}}, torch.randn(3, 16), "the model has one value for"),
    ({"x": {0: Dim("same", max=19), 1: Dim("same", max=19)}}, torch.randn(3, 16), "is one size"),
    ({"x": {0: Dim("batch", max=9)}}, [[1.0]], "only sizes of tensors"),
])
def test_inputs_that_are_not_of_the_ranges_are_refused(places, inputs, message, capfd):
    with pytest.raises(lowtide.InputError, match=message) as refused:
        lowtide.wrap(built(layers), (inputs,), dynamic_shapes=places)
    assert "mark_dynamic" not in str(refused.value)
    assert "torch" not in capfd.readouterr().err


class OneByOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return torch.stack([row for row in self.layer(x)]).square().mean()


def test_a_model_that_has_other_ops_for_each_size_is_refused_in_one_line(capfd):
    with pytest.raises(lowtide.InputError, match="needs this very size") as refused:
        lowtide.wrap(built(OneByOne), torch.randn(4, 8),
                     dynamic_shapes={"x": {0: Dim("batch", max=9)}})
    assert "mark_dynamic" not in str(refused.value)
    assert "torch" not in capfd.readouterr().err


@pytest.mark.parametrize("settings", [
    {"mode": "inductor"}, {"slices": "auto"},
    {"budget": "50%", "offload": "/tmp"},
])
def test_what_ranges_are_not_for_is_refused(settings):
    with pytest.raises(lowtide.InputError, match="dynamic_shapes is not for"):
        lowtide.wrap(built(layers), dynamic_shapes=BATCH, **settings)
