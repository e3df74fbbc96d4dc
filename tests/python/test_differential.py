"""The contract of docs/explanation/exactness.md, on some trainings drawn at random; differential.py
and differential_options.py go on with other seeds."""

import differential
import differential_options
import pytest
from sweep import sweep

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


@pytest.mark.parametrize("seed", sweep(range(1, 31), usual=range(4, 9)))
def test_random_trainings_are_eager_ones_to_the_bit(seed):
    assert differential.differs(seed) is None


@pytest.mark.parametrize("seed", sweep(range(30), usual=[5, 7]))
def test_options_and_loops_drawn_at_random_change_no_bit(seed, tmp_path):
    found = differential_options.fault(seed, tmp_path)
    assert found is None or isinstance(found, differential_options.Refused), found
