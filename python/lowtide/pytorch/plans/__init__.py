"""Captured graphs with measured costs, the plans for them, and the store of plans."""
