"""The exception that ends a preparation: all is planned, and the call is not run."""


class Prepared(Exception):
    """The graphs are captured and planned, and nothing was to be run."""
