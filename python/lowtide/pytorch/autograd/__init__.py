"""Runs planned graphs, forward and backward, in steps within the budget."""
