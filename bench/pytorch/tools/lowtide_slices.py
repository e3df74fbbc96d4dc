"""Lowtide in slices of the batch: the setting is their number, "/", and that of Lowtide's tool."""

from . import lowtide


def prepare(case, optimizer, setting):
    slices, _, budget = setting.partition("/")
    return lowtide.prepare(case, optimizer, budget, slices=int(slices))
