"""Runs a module's code and then restores the module's state."""

from __future__ import annotations

import contextlib
import copy
import random
import sys

import torch

from .one_trace import ONE_TRACE_AT_A_TIME
from .silence import silenced


@contextlib.contextmanager
def unchanged(model: torch.nn.Module):
    """While it lasts, code of the model may run; afterwards its buffers, its attributes, and the
    generators of torch, python and numpy are as before, and nothing was printed. Threads take
    turns, as all of them share the generators."""
    with ONE_TRACE_AT_A_TIME, _put_back_afterwards(model):
        yield


@contextlib.contextmanager
def _put_back_afterwards(model: torch.nn.Module):
    modules = [(module, _attributes(module)) for module in model.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    numpy = sys.modules.get("numpy")
    drawn = random.getstate(), numpy and numpy.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]), silenced():
            yield
    finally:
        random.setstate(drawn[0])
        if numpy:
            numpy.random.set_state(drawn[1])
        for module, attributes in modules:
            _put_back(module, attributes)
        with torch.no_grad():
            for buffer, before in buffers:
                if not torch.equal(buffer, before):
                    buffer.copy_(before)


def _attributes(module: torch.nn.Module) -> dict:
    """By name: each attribute, and of a list, dict or set what it contains."""
    return {name: (value, copy.copy(value) if isinstance(value, (list, dict, set)) else None)
            for name, value in module.__dict__.items()}


def _put_back(module: torch.nn.Module, attributes: dict) -> None:
    for name in set(module.__dict__) - set(attributes):
        del module.__dict__[name]
    for name, (value, content) in attributes.items():
        module.__dict__[name] = value
        if content is None or _has_the_same(value, content):
            continue
        value.clear()
        if isinstance(value, list):
            value.extend(content)
        else:
            value.update(content)


def _has_the_same(value, content) -> bool:
    """By identity: tensors of other shapes have no common answer to whether they are equal."""
    if isinstance(value, set):
        return value == content
    parts = [list(one.items()) if isinstance(one, dict) else [(None, part) for part in one]
             for one in (value, content)]
    return len(parts[0]) == len(parts[1]) and all(
        key == other_key and part is other
        for (key, part), (other_key, other) in zip(*parts))
