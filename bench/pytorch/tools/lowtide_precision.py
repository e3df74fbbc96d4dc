"""Lowtide in the precision that the setting names, without a limit."""

import torch

from . import UNLIMITED, lowtide


def prepare(case, optimizer, setting, **options):
    within = lowtide.prepare(case, optimizer, UNLIMITED, precision=setting, **options)

    def loss():
        with torch.autocast("cpu", enabled=False):  # of the peers that it is measured beside
            return within()

    loss.planned = within.planned
    return loss
