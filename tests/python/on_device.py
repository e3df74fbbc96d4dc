"""The device on which tests make their tensors, unless they say another one."""

import os

import torch

DEVICE = os.environ.get("LOWTIDE_TEST_DEVICE", "cpu")


def seeded(seed):
    """A generator of that device."""
    return torch.Generator(DEVICE).manual_seed(seed)
