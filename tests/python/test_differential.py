"""The contract of docs/explanation/exactness.md, on some trainings drawn at random; differential.py
goes on with other seeds."""

import differential
import pytest
from sweep import sweep

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


@pytest.mark.parametrize("seed", sweep(range(1, 31), usual=range(4, 9)))
def test_random_trainings_are_eager_ones_to_the_bit(seed):
    assert differential.differs(seed) is None
