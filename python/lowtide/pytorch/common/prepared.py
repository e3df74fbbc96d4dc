"""How preparing a model ends: what a call needs is there, and the call is not run."""


class Prepared(Exception):
    """The graphs are captured and planned, and nothing was to be run."""
