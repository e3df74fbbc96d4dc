"""The device on which tests make their tensors, unless they say another one."""

import os

import torch

DEVICE = os.environ.get("LOWTIDE_TEST_DEVICE", "cpu")


def seeded(seed):
    """A generator of that device."""
    return torch.Generator(DEVICE).manual_seed(seed)


def generator_state(device=DEVICE):
    """The state of a device's default generator."""
    if torch.device(device).type == "cpu":
        return torch.get_rng_state()
    return torch.get_device_module(device).get_rng_state()
