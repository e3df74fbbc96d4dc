"""What the choice of a split costs, and what is left of it when it is stopped."""

import lowtide
import pytest
import torch
from joint_graphs import Cell, compiled, gradients
from lowtide.pytorch.inductor import PlannedPartition
from lowtide.pytorch.inductor.lower import lowering
from lowtide.pytorch.inductor.select.plan_candidates import _SplitPlans
from lowtide.pytorch.inductor.select.torch_candidates import FRACTIONS, LARGER, smaller_splits
from lowtide.pytorch.inductor.split.joint import Joint
from lowtide.pytorch.inductor.split.torch_splits import TorchSplits
from torch._functorch import config, partitioners
from torch._inductor.decomposition import select_decomp_table

pytestmark = pytest.mark.usefixtures("one_thread")


def step_split_by(partition, **sizes):
    """A step whose graphs a partitioner splits; they are run op by op."""
    module = Cell(**sizes)
    run = compiled(module, partition, decompositions=select_decomp_table())
    gradients(module, run, (torch.randn(512, 16),))


def test_the_splits_are_pytorchs_and_what_they_share_is_solved_once(monkeypatch):
    fractions, solved = (1.0, 0.9, 0.5, 0.3, 0.0), []
    solve = partitioners.solve_min_cut

    def counted(*given, **named):
        solved.append(given)
        return solve(*given, **named)

    def partition(joint, inputs, *, num_fwd_outputs, **_):
        monkeypatch.setattr(partitioners, "solve_min_cut", counted)
        own = TorchSplits(joint, inputs, num_fwd_outputs, [])
        ours = [own.split(fraction) for fraction in fractions]
        count = len(solved)
        for fraction, halves in zip(fractions, ours, strict=True):
            with config.patch(activation_memory_budget=fraction):
                theirs = partitioners.min_cut_rematerialization_partition(
                    joint, inputs, num_fwd_outputs=num_fwd_outputs)
            assert [str(half.graph) for half in halves] == [str(half.graph) for half in theirs]
        assert 1 < count < len(solved) - count
        return ours[0]

    step_split_by(partition)


@pytest.fixture(scope="module")
def enough():
    """Bytes that the smallest of PyTorch's splits takes, as lowered."""
    partition = PlannedPartition("60%", only_pytorch=True, over=float("inf"))
    step_split_by(partition)
    return partition.found.expected_bytes


def stopped(*_, **__):
    raise KeyboardInterrupt


def test_what_was_found_before_ctrl_c_is_kept(enough, monkeypatch):
    """Here PyTorch's splits, as no plan is made."""
    monkeypatch.setattr("lowtide.pytorch.inductor.select.partition_fn.plan", stopped)
    partition = PlannedPartition(enough)
    step_split_by(partition)
    assert partition.found.fits and partition.found.planned is None
    assert partition.found.name.startswith("PyTorch's split at")


def test_ctrl_c_is_raised_where_nothing_was_found(monkeypatch):
    monkeypatch.setattr("lowtide.pytorch.inductor.select.partition_fn.plan", stopped)

    def partition(*inputs, **given):
        with pytest.raises(KeyboardInterrupt):
            PlannedPartition(1000)(*inputs, **given)
        return partitioners.default_partition(*inputs, **given)

    step_split_by(partition)


def test_no_plan_is_made_where_pytorchs_split_is_as_fast(enough, monkeypatch):
    """Within 1% of what Inductor alone takes nothing is to gain."""
    planned = []
    monkeypatch.setattr("lowtide.pytorch.inductor.select.partition_fn.plan",
                        lambda *given, **named: planned.append(given))
    monkeypatch.setattr("lowtide.pytorch.inductor.select.select.LITTLE", 10.0)
    partition = PlannedPartition(enough)
    step_split_by(partition)
    assert not planned and partition.found.fits


def test_a_split_is_lowered_once(enough, monkeypatch):
    """By all rounds of a fit."""
    lowerings, count = lowering.KnownLowerings(), []
    lower = lowering.lowered
    monkeypatch.setattr(lowering, "lowered", lambda *given: count.append(1) or lower(*given))
    found = []
    for _ in range(2):
        partition = PlannedPartition(enough, lowering=lowerings, only_pytorch=True)
        step_split_by(partition)
        found.append((partition.found.name, partition.found.expected_bytes, len(count)))
    assert found[0] == found[1]


def test_a_budget_below_all_splits_says_what_the_smallest_takes():
    found = []

    def partition(*inputs, **given):
        with pytest.raises(lowtide.InfeasibleError) as error:
            PlannedPartition(1000, time_limit=5)(*inputs, **given)
        smallest = PlannedPartition(1000, time_limit=5, over=float("inf"))
        halves = smallest(*inputs, **given)
        found.append((str(error.value), smallest.found.expected_bytes))
        return halves

    step_split_by(partition)
    (message, smallest), = found
    assert str(smallest) in message and "1000" in message


def with_joint(look, **sizes):
    """``look(joint)`` of the module's joint graph, which is split as PyTorch does."""
    def partition(module, inputs, *, num_fwd_outputs, **_):
        joint = Joint(module, inputs, num_fwd_outputs, [])
        look(joint)
        return joint.torch_split(1.0)

    step_split_by(partition, **sizes)


def test_splits_that_become_larger_again_are_not_all_looked_at():
    def look(joint):
        cuts = list(smaller_splits(joint, joint.torch_split(1.0)))
        peaks = [cut.prediction.peak_bytes for cut in cuts]
        assert len(cuts) > LARGER and cuts[-1].fraction > FRACTIONS[-1]
        assert min(peaks[-LARGER:]) > min(peaks)

    with_joint(look, steps=4)


def test_no_plan_is_made_that_is_larger_than_one_before():
    """Where what is asked for is refused, and nothing is asked for that was refused before."""
    asked = []

    def planner(graph, budget):
        asked.append(budget)
        return lowtide.plan(graph, budget, time_limit=0.5, options={"moves": 50})

    def look(joint):
        plans = _SplitPlans(joint, joint.kernel_graph(joint.torch_split(1.0)), planner)
        first = plans.within(plans.kept * 9 // 10)
        smallest = plans.within(1000)
        count = len(asked)
        assert smallest.is_smallest and not first.is_smallest
        assert smallest.found.plan.peak_bytes <= first.found.plan.peak_bytes
        assert plans.within(900) == smallest and len(asked) == count

    with_joint(look)
