"""Lowtide: a plan within a budget of bytes for all tensors of the process."""

import lowtide

from . import UNLIMITED


def prepare(case, optimizer, setting, mode="executor"):
    """`setting`: bytes, parameters, optimizer state and inputs included; or UNLIMITED."""
    budget = None if setting == UNLIMITED else int(setting)
    wrapped = lowtide.wrap(case.module, case.inputs, budget=budget, optimizer=optimizer, mode=mode)
    return lambda: wrapped(*case.inputs)
