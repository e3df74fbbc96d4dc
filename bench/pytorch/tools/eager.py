"""PyTorch as it is: every value that a gradient needs is kept."""


def prepare(case, optimizer, setting):
    return lambda: case.module(*case.inputs)
