"""Backward passes that run twice, forward passes that wait together: eager's bits, within the
budget."""

import functools

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from torch_memory import profiled
from wrap_cases import Counting, Deep, InThreeGraphs

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


class Broken(InThreeGraphs):
    def __init__(self):
        super().__init__(lambda: Deep(layers=2).layers)


def rows():
    return torch.randn(256, 32)


def built(make, seed=0):
    torch.manual_seed(seed)
    return make()


def left_behind(model, run, seed=3):
    """What ``run(model)`` returns and leaves in the model and the generator; and the peak of what
    PyTorch allocates meanwhile, above what was there before."""
    torch.manual_seed(seed)
    values = []
    peak, _, _ = profiled(lambda: values.extend(run(model)))
    values += [p.grad for p in model.parameters() if p.grad is not None]
    values += [*model.state_dict().values(), torch.get_rng_state()]
    return [value.detach().clone() for value in values], peak


def peak_as_eager(wrapped, plain, run):
    """The peak of a run that leaves what eager leaves; gradients are dropped."""
    (got, peak), (expected, _) = left_behind(wrapped, run), left_behind(plain, run)
    assert len(got) == len(expected)
    assert all(torch.equal(a, b) for a, b in zip(got, expected))
    wrapped.zero_grad(), plain.zero_grad()
    return peak


@functools.cache
def whole(make):
    """Bytes that a step takes when all is kept."""
    wrapped = lowtide.wrap(built(make), budget="100%", optimizer="none", time_limit=0.3)
    for _ in range(2):
        once(wrapped)
    return wrapped.memory.budget


def once(model):
    loss = model(rows())
    loss.backward()
    return [loss]


def backward_twice(model):
    loss = model(rows())
    loss.backward(retain_graph=True)
    loss.backward()
    return [loss]


def gradients_twice(model):
    loss = model(rows())
    parameters = list(model.parameters())
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    torch.randn(3)  # the generator moves in between
    return [*first, *torch.autograd.grad(2 * loss, parameters, retain_graph=True),
            *torch.autograd.grad(loss, parameters)]


def input_gradients(model):
    x = rows().requires_grad_()
    loss = model(x)
    kept = []
    for _ in range(2):
        loss.backward(retain_graph=True)
        kept.append(x.grad.clone())
    return kept


@pytest.mark.parametrize("make, run, share", [
    (Deep, backward_twice, None), (Deep, backward_twice, 1.2), (Deep, gradients_twice, 2.5),
    (Deep, input_gradients, 1.5), (Broken, backward_twice, 1.5), (Broken, gradients_twice, 3),
])
def test_a_backward_pass_may_run_again(make, run, share):
    budget = int(share * whole(make)) if share else None
    wrapped = lowtide.wrap(built(make), budget=budget, optimizer="none", time_limit=0.3)
    plain = built(make)
    before = sum(p.nbytes for p in wrapped.parameters())
    for _ in range(2):
        peak = peak_as_eager(wrapped, plain, run)
        assert budget is None or peak <= budget - before


class WithView(Deep):
    """Also returns a view of a result, so that AOTAutograd's wrappers are around the graph."""

    def forward(self, x):
        result = self.layers(x)
        return result, result[:, 0]


def test_a_backward_pass_may_run_again_in_a_later_step():
    def steps(model):
        for is_retained in (False, True):
            result, view = model(rows())
            loss = result.square().mean() + view.sum()
            for retain_graph in (True, False)[not is_retained:]:
                loss.backward(retain_graph=retain_graph)
        return []

    peak_as_eager(lowtide.wrap(built(WithView), optimizer="none", time_limit=0.3), built(WithView),
                  steps)


def test_what_the_module_overwrites_cannot_be_read_again():
    wrapped = lowtide.wrap(built(Counting), rows())
    loss = wrapped(rows())
    loss.backward(retain_graph=True)
    with pytest.raises(lowtide.Error, match="reads scale, which the module overwrites"):
        loss.backward()
    wrapped(rows()).backward()  # and the model still works


def test_a_pending_pass_that_cannot_be_discarded_leaves_the_rest_or_says_so():
    budget = int(1.2 * whole(Counting))
    wrapped = lowtide.wrap(built(Counting), rows(), budget=budget, optimizer="none", time_limit=0.3)
    first = wrapped(rows())
    with pytest.raises(lowtide.InfeasibleError, match="cannot be run again: it reads scale"):
        wrapped(rows())
    del first
    (wrapped(rows()) + wrapped(rows())).backward()  # they share the budget now
    memory = wrapped.memory
    assert memory.measured_peak - memory.outside <= budget


def test_saved_tensors_that_are_copied_on_their_way():
    def saved_elsewhere(model):
        with torch.autograd.graph.save_on_cpu():
            loss = model(rows())
        loss.backward()
        return [loss]

    wrapped, plain = lowtide.wrap(built(Deep), rows(), time_limit=0.3), built(Deep)
    peak_as_eager(wrapped, plain, saved_elsewhere)
    peak_as_eager(wrapped, plain, once)


def test_changes_before_the_second_backward_pass_are_noticed():
    wrapped = lowtide.wrap(built(Deep), rows())
    loss = wrapped(rows())
    loss.backward(retain_graph=True)
    with torch.no_grad():
        wrapped.layers[0].weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def two_at_once(model):
    first, second = model(rows()), model(rows())
    first.backward()
    (2 * second).backward()
    third, fourth = model(rows()), model(rows())
    (third + 2 * fourth).backward()
    return [first, second, third, fourth]


@pytest.mark.parametrize("make, run, share", [(Deep, two_at_once, 1.5), (Broken, once, 0.95)])
def test_a_step_is_within_the_budget_from_the_first_time(make, run, share):
    budget = int(share * whole(make))
    wrapped = lowtide.wrap(built(make), budget=budget, optimizer="none", time_limit=0.3)
    plain = built(make)
    before = sum(p.nbytes for p in wrapped.parameters())
    for _ in range(3):
        assert peak_as_eager(wrapped, plain, run) <= budget - before


def test_a_pass_that_was_not_expected_takes_the_memory_of_another():
    wrapped = lowtide.wrap(built(Deep), rows(), budget=int(1.5 * whole(Deep)), time_limit=0.3)
    (region,) = session_of(wrapped).regions
    discarded = []
    discard = region.passes.discard
    region.passes.discard = lambda executor: (
        discarded.append(executor.pending_pass), discard(executor))
    run = two_at_once
    peak_as_eager(wrapped, built(Deep), run)
    first_time = len(discarded)
    once(wrapped), run(wrapped)
    assert first_time == 1 and len(discarded) == 1  # the budget is divided from then on


def kept_in_grad(model):
    """Several steps add up."""
    for _ in range(3):
        model(torch.randn(128, 128)).backward()
    return []


def test_gradients_that_add_up_are_within_the_budget_from_the_first_time(monkeypatch):
    def make():
        return Deep(width=128)

    written = []
    save = torch.save
    monkeypatch.setattr(torch, "save", lambda *given: (written.append(1), save(*given)))
    settings = {"optimizer": "none", "time_limit": 0.3}
    parameters = sum(p.nbytes for p in make().parameters())
    roomy = lowtide.wrap(built(make), torch.randn(128, 128), **settings)
    budget = int(1.05 * session_of(roomy).figures.least_bytes()) + parameters
    wrapped, plain = lowtide.wrap(built(make), budget=budget, **settings), built(make)
    for _ in range(2):
        assert peak_as_eager(wrapped, plain, kept_in_grad) <= budget - parameters
    assert len(written) <= 1  # from then on there is room


def test_gradients_that_are_kept_get_memory_of_their_own():
    def keeping(model):
        kept = []
        for _ in range(4):
            kept.append(torch.autograd.grad(model(rows()), list(model.parameters())))
        return [gradient for some in kept for gradient in some]

    wrapped = lowtide.wrap(built(Deep), rows(), budget=3 * whole(Deep), time_limit=0.3)
    peak_as_eager(wrapped, built(Deep), keeping)
    (region,) = session_of(wrapped).regions
    assert sum(executor.held_bytes > 0 for executor in region.executors) <= 2


def test_an_input_gradient_that_is_kept_holds_no_block():
    def keeping(model):
        inputs = [rows().requires_grad_() for _ in range(3)]
        for x in inputs:
            model(x).backward()
        return [x.grad for x in inputs]

    wrapped = lowtide.wrap(built(Deep), rows().requires_grad_(), time_limit=0.3)
    peak_as_eager(wrapped, built(Deep), keeping)
    (region,) = session_of(wrapped).regions
    assert sum(executor.held_bytes > 0 for executor in region.executors) == 1
