"""The device of a measurement: what counts its bytes there, and when its work is done.

On the CPU an allocator of the bench counts. An accelerator's own allocator counts, as
torch.accelerator.memory_allocated says, Lowtide's blocks among it.
"""

import torch


class Cpu:
    """`counter` is to be made before lowtide is imported."""

    name = "cpu"
    clock = "step_cpu_s"  # what else runs on the machine adds little to it

    def __init__(self):
        from counter import Counter

        self.counter = Counter()

    def finish(self):
        """All work is done when an op returns."""


class Accelerator:
    """`cuda`, or another device type that torch has; `simulated`, of `SIMULATED` bytes."""

    clock = "step_wall_s"  # the host only submits
    SIMULATED = 8 << 30

    def __init__(self, name):
        self.name = name
        if name == "simulated":
            from lowtide.pytorch import simulated

            simulated.install(self.SIMULATED)
        self.counter = self

    def now(self):
        self.finish()
        return torch.accelerator.memory_allocated()

    def peak(self):
        """Since the last forget_peak()."""
        self.finish()
        return torch.accelerator.max_memory_allocated()

    def forget_peak(self):
        self.finish()
        torch.accelerator.reset_peak_memory_stats()

    def finish(self):
        torch.accelerator.synchronize()


def clock_of(name):
    """The figure that times are compared by."""
    return (Cpu if name == "cpu" else Accelerator).clock


def opened(name):
    return Cpu() if name == "cpu" else Accelerator(name)


def described(name):
    """ "NVIDIA H100 80GB HBM3, torch 2.13.0": for rows of several machines."""
    kind = torch.cuda.get_device_name() if name == "cuda" else name
    return f"{kind}, torch {torch.__version__}"
