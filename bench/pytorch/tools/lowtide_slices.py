"""Lowtide in slices of the batch: the setting is their number or "auto", "/", and that of Lowtide's
tool; then "/fused", if updates run within the backward pass."""

from . import lowtide


def prepare(case, optimizer, setting, **options):
    slices, budget, *fused = setting.split("/")
    loss = lowtide.prepare(case, optimizer, budget, fused_update=fused == ["fused"],
                           slices=slices if slices == "auto" else int(slices), **options)
    loss.updates = fused == ["fused"]
    return loss
