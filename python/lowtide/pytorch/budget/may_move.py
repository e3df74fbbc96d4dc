"""What the plans of a model's graphs may move to slower memory."""

import enum


class MayMove(enum.IntEnum):
    """Each may move what those before it may. ``PARAMETERS``: they are away while a pass runs, and
    back when its backward pass is over."""

    NOTHING = 0
    VALUES = 1
    PARAMETERS = 2
