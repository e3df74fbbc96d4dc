"""What code beside a wrapped model takes during a step counts too."""

import gc
import warnings

import lowtide
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from wrap_cases import built

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

ROWS, WIDTH, CLASSES = 256, 200, 500


def inputs():
    return torch.randn(ROWS, WIDTH)


class Classifier(nn.Module):
    """Scores that a loss outside of the model makes more of the same size of."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*[layer for _ in range(12)
                                    for layer in (nn.Linear(WIDTH, WIDTH), nn.Tanh())])
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


def steps(model, count, dtype=torch.float32):
    """Losses and gradients of some steps, and after each what is known of its memory."""
    left, memories = [], []
    for _ in range(count):
        x = inputs()
        labels = torch.randint(0, CLASSES, (ROWS,))
        model.zero_grad()
        loss = F.cross_entropy(model(x).to(dtype), labels)
        loss.backward()
        left += [loss.detach(), *(p.grad.clone() for p in model.parameters())]
        memories.append(getattr(model, "memory", None))
    return left, memories


def wrapped_within(budget):
    return lowtide.wrap(built(Classifier), inputs(), budget=budget, optimizer="none",
                        time_limit=1)


@pytest.fixture(autouse=True)
def nothing_of_other_tests():
    """What they left would be taken off where it goes within a step."""
    gc.collect()


@pytest.fixture(scope="module")
def unlimited():
    """The memory of a step whose plan keeps all."""
    _, memories = steps(wrapped_within(None), 2)
    return memories[-1]


def test_measuring_a_size_that_is_new_is_not_taken_for_the_work_of_other_code():
    model = wrapped_within("95%")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (ROWS, ROWS // 2, ROWS // 2, ROWS // 4, ROWS // 4):
            model.zero_grad()
            model(torch.randn(rows, WIDTH)).sum().backward()


def test_batches_that_the_loader_holds_count():
    x = inputs()
    existing = [lowtide.wrap(built(Classifier), x, optimizer="none", time_limit=0.3,
                             batches_ahead=count).memory.existing for count in (0, 1, 3)]
    assert [more - existing[0] for more in existing[1:]] == [x.nbytes, 3 * x.nbytes]


def test_later_steps_leave_room_for_what_the_first_was_seen_to_take(unlimited):
    scores = 4 * ROWS * CLASSES
    assert unlimited.outside >= scores
    budget = unlimited.planned_peak + unlimited.outside // 8
    wrapped, plain = wrapped_within(budget), built(Classifier)
    torch.manual_seed(3)
    got, memories = steps(wrapped, 4)
    torch.manual_seed(3)
    expected, _ = steps(plain, 4)
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    first, _, *later = memories  # the second one is planned for scores that are dropped
    assert first.measured_peak > budget
    for memory in later:
        assert memory.outside >= scores
        assert memory.measured_peak <= budget


def test_room_that_was_seen_to_be_needed_is_left_though_the_budget_changes(unlimited):
    wrapped = wrapped_within(unlimited.planned_peak + unlimited.outside // 8)
    x, labels = inputs(), torch.randint(0, CLASSES, (ROWS,))
    for number in range(5):
        F.cross_entropy(wrapped(x), labels).backward()
        wrapped.zero_grad()
        assert number < 2 or wrapped.memory.measured_peak <= wrapped.budget
        wrapped.budget = wrapped.budget - 1024


class InOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(self.body(x).tanh())


class InTwo(InOne):
    def forward(self, x):
        x = self.body(x).tanh()
        torch._dynamo.graph_break()
        return self.head(x)


@pytest.mark.parametrize("make, said", [(InOne, "other code of this process took"),
                                        (InTwo, "each of the last 3 steps was planned anew")])
def test_steps_that_exceed_the_budget_each_with_a_size_of_its_own_say_so(make, said):
    wrapped = lowtide.wrap(built(make), budget="6MiB", optimizer="none", time_limit=0.1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(4):
            scores = wrapped(torch.randn(ROWS + 8 * number, WIDTH))
            other = torch.zeros(4_000_000)
            (scores.square().mean() + other[0]).backward()
            del scores, other
            wrapped.zero_grad()
    assert [said in str(each.message) for each in caught].count(True) == 1


def test_a_budget_without_room_for_it_says_so_once(unlimited):
    least = unlimited.planned_peak - unlimited.planned_above // 20
    wrapped = wrapped_within(least)
    steps(wrapped, 2, torch.float64)
    with pytest.warns(UserWarning, match="during the last step.*has no room for.*Put the loss"):
        steps(wrapped, 1, torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps(wrapped, 2, torch.float64)


def test_a_small_loss_has_room_from_the_first_step(unlimited):
    class Small(Classifier):
        def forward(self, x):
            return super().forward(x).mean(0)

    module = built(Small)
    whole = lowtide.wrap(module, inputs(), budget="100%", optimizer="none", time_limit=0.3)
    budget = whole.memory.budget * 9 // 10
    wrapped = lowtide.wrap(built(Small), inputs(), budget=budget, optimizer="none", time_limit=0.3)
    F.mse_loss(wrapped(inputs()), torch.zeros(CLASSES)).backward()
    memory = wrapped.memory
    assert 0 < memory.outside
    assert memory.measured_peak <= budget


class Rows(nn.Module):
    """A loss of a batch that is large beside what it holds of it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[layer for _ in range(4) for layer in (
            nn.Linear(64, 64), nn.GELU())])

    def forward(self, x):
        return self.layers(x).float().square().mean()


@pytest.mark.parametrize("budget", ["90%", "70%"])
@pytest.mark.parametrize("precision", [None, "bf16"])
def test_the_next_batch_is_made_before_the_last_one_is_dropped(budget, precision):
    """As every loop over a data loader does."""
    model = built(Rows)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    wrapped = lowtide.wrap(model, budget=budget, optimizer=optimizer, time_limit=0.5,
                           precision=precision)
    for step in range(5):
        x = torch.randn(256, 16, 64)
        wrapped(x).backward()
        optimizer.step()
        optimizer.zero_grad()
        assert step == 0 or wrapped.memory.measured_peak <= wrapped.memory.budget


def test_calls_without_gradients_within_a_step_count():
    """As those of a teacher."""
    def step(model, x):
        model.zero_grad()
        scores = model(x)
        with torch.no_grad():
            target = model(x).softmax(-1)
        F.cross_entropy(scores, target).backward()

    def measured(budget):
        model = wrapped_within(budget)
        for _ in range(4):
            step(model, inputs())
        return model.memory

    unlimited = measured(None)
    scores = ROWS * CLASSES * torch.float32.itemsize
    assert unlimited.outside >= 2 * scores
    budget = unlimited.measured_peak - scores  # as if the teacher had half of what it takes
    assert measured(budget).measured_peak <= budget


class Student(nn.Module):
    """Its loss against what a teacher gives."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[layer for _ in range(6) for layer in (
            nn.Linear(WIDTH, WIDTH), nn.GELU())])

    def forward(self, x, target):
        return F.mse_loss(self.layers(x), target)


def distilled(budget, width, optimizer, count=4):
    """Parameters after some steps, each of which asks a teacher first; the memory after each."""
    student, x = built(Student), inputs()
    torch.manual_seed(1)
    teacher = nn.Sequential(nn.Linear(WIDTH, width), nn.GELU(), nn.Linear(width, WIDTH))
    trained_by = optimizer(student.parameters())
    if budget is not None:
        student = lowtide.wrap(student, (x, x), budget, optimizer=trained_by, time_limit=0.3)
    memories = []
    for _ in range(count):
        with torch.no_grad():
            target = teacher(x)
        student(x, target).backward()
        trained_by.step()
        trained_by.zero_grad()
        memories.append(getattr(student, "memory", None))
    return list(student.parameters()), memories


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
def test_what_runs_between_two_steps_has_room_from_the_third_step_on(optimizer):
    """The plan gives back a part of its block for it, as it does for the optimizer's step."""
    hidden = 2 * ROWS * 4 * WIDTH * torch.float32.itemsize
    gradients = sum(p.nbytes for p in Student().parameters())
    whole = lowtide.wrap(Student(), (inputs(), inputs()), "100%", optimizer=optimizer).memory
    budget = whole.existing + gradients + hidden + hidden // 4
    assert budget < whole.planned_peak + hidden
    got, (_, before, *later) = distilled(budget, 4 * WIDTH, optimizer, 5)
    assert before.measured_peak > budget
    assert all(memory.measured_peak <= budget for memory in later[1:])
    expected, _ = distilled(None, 4 * WIDTH, optimizer, 5)
    assert all(map(torch.equal, got, expected))


def test_a_budget_without_room_for_what_runs_between_two_steps_says_so_once():
    with pytest.warns(UserWarning, match="other code between two steps.*beyond the budget") as said:
        distilled("70%", 40 * WIDTH, torch.optim.SGD, 5)
    assert len(said) == 1
