"""What random models leave behind when they are trained within random budgets, with streams that
are late at random. random_trainings.py goes on with other seeds."""

import pytest
import random_trainings
from lowtide.pytorch.wrap import session_of
from sweep import sweep

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("seed", sweep(range(200), usual=[1, 2, 7]))
def test_no_budget_and_no_late_stream_changes_a_bit(seed):
    fault = random_trainings.fault(seed)
    assert fault is None, fault


def test_the_smallest_budgets_run_ops_again():
    planned = random_trainings.Planned(*random_trainings.drawn(1))
    session = session_of(planned.model)
    region, = session.regions
    planned.trained(1)
    keep_all = session.plan_for(region).cost
    planned.trained(1, planned.smallest)
    assert session.plan_for(region).cost > keep_all
