"""Values that the backward pass reads, held in fewer bits from the forward pass on, and widened
where they are read.

Some lose nothing: masks as bits, indices of pooling in bytes, of a ReLU's result whether it passes
the gradient on (Gist, Jain et al. 2018). Others hold activations in half precision or in 8 bits
with a scale for each block (ActNN, Chen et al. 2021), and change the gradients.
"""

from .find import stashes_of
from .report import describe
from .rewrite import stashed
from .stash import Stash, Stashes, of_use

__all__ = ["Stash", "Stashes", "describe", "of_use", "stashed", "stashes_of"]
