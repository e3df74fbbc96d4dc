"""GPUs of CUDA as Python meets them, on a machine without one. The part itself: tests/cuda."""

import lowtide
import pytest
import torch
from lowtide import _runtime

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="for a machine without a GPU")


def test_without_a_gpu_its_name_is_refused():
    with pytest.raises(lowtide.InputError, match="there is no GPU of CUDA here|without its part"):
        _runtime.profile_path("cuda:0")


@pytest.mark.skipif(torch.version.cuda is not None, reason="for a build of torch without CUDA")
def test_a_torch_without_cuda_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "GPU")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    for _ in range(2):  # a refusal is not remembered as a known device
        with pytest.raises(lowtide.InputError,
                           match="install one that is built with it|build it again with headers"):
            _runtime.profile_path("cuda:0")


def test_other_device_types_are_refused_as_before():
    with pytest.raises(lowtide.InputError, match="plans are run on"):
        _runtime.profile_path("meta")
