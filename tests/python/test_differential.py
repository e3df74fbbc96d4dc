"""The contract of docs/explanation/exactness.md, on trainings drawn at random for a minute."""

import differential
import pytest

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


def test_random_trainings_are_eager_ones_to_the_bit():
    tried, found = differential.run(seconds=60, seed=1)
    assert found is None, found
    assert tried > 2
