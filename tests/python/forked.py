"""Processes that are forked from one that has loaded PyTorch and Lowtide once."""

import multiprocessing
import os

CONTEXT = multiprocessing.get_context("forkserver")
#: What training on ranks loads, beyond ``import lowtide``, when it is first needed.
CONTEXT.set_forkserver_preload([
    "pytest", "torch._dynamo", "torch._inductor.debug", "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp", "torch.distributed.tensor.experimental", "lowtide.pytorch.ranks",
    "lowtide.pytorch.wrap"])


def process(target, *arguments, daemon=None, **environment):
    """One that has not started, and is to have the environment of now, with these changes."""
    return CONTEXT.Process(target=_run, daemon=daemon,
                           args=(os.environ | environment, target, arguments))


def _run(environment, target, arguments):
    # That of the process it is forked from is as of when that one began.
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
    target(*arguments)
