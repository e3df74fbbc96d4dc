"""A model over several processes, each of which trains some of its blocks within a budget."""

from .make_pipeline import pipeline
from .stages_of_rank import StagesOfRank

__all__ = ["StagesOfRank", "pipeline"]
