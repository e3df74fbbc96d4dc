"""Turns joint graphs of AOTAutograd into lowtide graphs."""

from .captured import BOUNDARY, Captured, Output
from .joint import from_joint
from .primals import mutated_primals

__all__ = ["BOUNDARY", "Captured", "Output", "from_joint", "mutated_primals"]
