"""A rank that is killed, stands still, raises, runs out of memory or differs ends all ranks, and
each says which it was and why."""

import dataclasses
import os
import re
import signal
import time

import lowtide
import pytest
import torch
from lowtide.pytorch.ranks import process_identity, rank_monitor
from lowtide.pytorch.ranks.peer_history import PeerHistory, Suspicion
from lowtide.pytorch.ranks.process_identity import GONE, RUNNING, STOPPED, this_process
from lowtide.pytorch.ranks.rank_board import Beat, Failure, RankBoard
from rank_processes import RankProcesses, said
from sweep import sweep

SIZE, BAD = 3, 1
TIMEOUT = 3.0  # of the watchdogs
LIMIT = 30  # of the tests, for the slowest machine

pytestmark = pytest.mark.cpu_only("the ranks of these tests are on the CPU")


def training(folder, fault, timeout=TIMEOUT, steps=10**9, **agreed):
    """Steps with a collective each; in the third, the bad rank calls ``fault``."""
    comm = lowtide.Communicator.create()
    with lowtide.Watchdog(comm, timeout=timeout, **agreed):
        for step in range(steps):
            if step == 3 and comm.rank == BAD:
                said(folder, "ready")
                fault()
            comm.allreduce(torch.ones(100))
    return "done"


def data_parallel(folder, fault, timeout=TIMEOUT):
    """The same with PyTorch's own collectives."""
    comm = lowtide.Communicator.create()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(50, 50))
    with lowtide.Watchdog(comm, timeout=timeout, model=model):
        for step in range(10**9):
            if step == 3 and comm.rank == BAD:
                said(folder, "ready")
                fault()
            model(torch.ones(2, 50)).sum().backward()


def go_on():
    pass


def raise_an_error():
    raise ValueError("the labels are wrong\nand more")


def exhaust_memory():
    bytearray(1 << 62)


def exhaust_memory_of_tensors():
    torch.empty(1 << 58)


def hang():
    time.sleep(1000)


def leave_early():
    raise SystemExit(0)


def end_at_once():
    os._exit(0)


def outcomes_of(folder, program, *arguments, after=None):
    """``after``: a signal that the bad rank gets when it is in the third step."""
    with RankProcesses(folder, program, SIZE, folder, *arguments) as ranks:
        if after is not None:
            ranks.wait_for("ready")
            ranks.signal(BAD, after)
        return ranks.outcomes(LIMIT)


def require_one_message(outcomes, reason):
    """On the ranks that are not to blame."""
    messages = {outcome.error for rank, outcome in enumerate(outcomes) if rank != BAD}
    assert len(messages) == 1, [outcome.printed for outcome in outcomes]
    kind, text = messages.pop()
    assert kind == "RankError" and text.startswith(f"rank {BAD} of {SIZE} failed: "), text
    assert reason in text, text
    assert all(outcome.exit is not None for outcome in outcomes)
    return text


@pytest.mark.parametrize("program", sweep([training, data_parallel], usual=[training]))
def test_a_killed_rank(tmp_path, program):
    found = outcomes_of(tmp_path, program, go_on, 60., after=signal.SIGKILL)
    require_one_message(found, "has ended without a word")
    assert found[BAD].exit == -signal.SIGKILL


@pytest.mark.sweep
def test_a_rank_that_ends_without_an_error(tmp_path):
    require_one_message(outcomes_of(tmp_path, training, end_at_once, 60.),
                        "has ended without a word")


@pytest.mark.parametrize("program", sweep([training, data_parallel], usual=[data_parallel]))
def test_a_stopped_rank_is_named_and_killed(tmp_path, program):
    found = outcomes_of(tmp_path, program, go_on, after=signal.SIGSTOP)
    require_one_message(found, "is stopped by a signal")
    assert found[BAD].exit == -signal.SIGKILL


def test_a_rank_that_hangs_says_where(tmp_path):
    found = outcomes_of(tmp_path, training, hang)
    text = require_one_message(found, "it hangs, or computes for longer than the timeout")
    assert found[BAD].exit == 1
    assert text in found[BAD].printed and "time.sleep(1000)" in found[BAD].printed


ERRORS = [
    (raise_an_error, "ValueError: the labels are wrong", "ValueError"),
    (exhaust_memory, "it ran out of memory (MemoryError)", "MemoryError"),
    (exhaust_memory_of_tensors, "it ran out of memory (RuntimeError", "RuntimeError"),
    (leave_early, "SystemExit: 0", "SystemExit"),
]


@pytest.mark.parametrize("fault, reason, kind", sweep(ERRORS, usual=ERRORS[:2]))
def test_a_rank_that_raises(tmp_path, fault, reason, kind):
    found = outcomes_of(tmp_path, training, fault, 60.)
    text = require_one_message(found, reason)
    assert found[BAD].error[0] == kind
    assert kind == "SystemExit" or text in found[BAD].printed  # as a note


@pytest.mark.sweep
def test_a_rank_that_is_told_to_end(tmp_path):
    found = outcomes_of(tmp_path, training, go_on, 20., after=signal.SIGTERM)
    require_one_message(found, "it was told to end by SIGTERM")


def told_to_end_after_a_kill(folder):
    return training(folder, go_on, 60.)


def test_ranks_that_are_told_to_end_because_another_was_killed_say_so(tmp_path):
    """As torchrun does."""
    with RankProcesses(tmp_path, told_to_end_after_a_kill, SIZE, tmp_path) as ranks:
        ranks.wait_for("ready")
        for rank, number in ((BAD, signal.SIGKILL), (0, signal.SIGTERM), (2, signal.SIGTERM)):
            ranks.signal(rank, number)
        require_one_message(ranks.outcomes(LIMIT), "has ended without a word")


def on_a_machine_of_its_own(folder):
    process_identity._place = lambda: f"machine of process {os.getpid()}"
    return training(folder, go_on)


@pytest.mark.sweep
def test_a_killed_rank_of_another_machine(tmp_path):
    """Of which only its silence tells."""
    found = outcomes_of(tmp_path, on_a_machine_of_its_own, after=signal.SIGKILL)
    require_one_message(found, "hangs, or its machine cannot be reached")


def training_where_rank_0_waits(folder):
    comm = lowtide.Communicator.create()
    with lowtide.Watchdog(comm, timeout=60):
        comm.barrier()
        said(folder, "ready")
        while True:
            comm.allreduce(torch.ones(10))


@pytest.mark.sweep
def test_the_rank_that_holds_the_store_is_killed(tmp_path):
    with RankProcesses(tmp_path, training_where_rank_0_waits, SIZE, tmp_path, agent=False) as ranks:
        ranks.wait_for("ready")
        ranks.signal(0, signal.SIGKILL)
        _, first, second = ranks.outcomes(LIMIT)
    assert first.error[0] == second.error[0] == "RankError"
    for outcome in (first, second):
        assert re.match(r"rank 0 of 3 failed: its process.* has ended", outcome.error[1])


def in_another_group(folder):
    comm = lowtide.Communicator.create()
    group = torch.distributed.new_group(range(SIZE))
    with lowtide.Watchdog(comm, timeout=TIMEOUT):
        for step in range(10**9):
            if step == 3 and comm.rank == BAD:
                hang()
            torch.distributed.all_reduce(torch.ones(10), group=group)


@pytest.mark.sweep
def test_a_rank_that_hangs_is_found_by_another_group_of_all_ranks(tmp_path):
    require_one_message(outcomes_of(tmp_path, in_another_group), "it has begun")


def in_a_group_of_some(folder):
    comm = lowtide.Communicator.create()
    group = torch.distributed.new_group([0, BAD])
    with lowtide.Watchdog(comm, timeout=TIMEOUT):
        if comm.rank == 0:
            torch.distributed.all_reduce(torch.ones(10), group=group)
        time.sleep(2 * TIMEOUT)
        comm.barrier()


@pytest.mark.sweep
def test_nobody_is_blamed_where_it_is_not_known_who_is_to_blame(tmp_path):
    found = outcomes_of(tmp_path, in_a_group_of_some)
    assert len({outcome.error for outcome in found}) == 1
    assert "a rank of 3 failed: a collective failed on rank 0, and all" in found[0].error[1]


def require_others_end(folder, program, message):
    """While the bad rank still runs, with one message."""
    with RankProcesses(folder, program, SIZE, folder) as ranks:
        ranks.processes[0].join()
        ranks.processes[2].join()
        ranks.signal(BAD, signal.SIGKILL)
        require_one_message(ranks.outcomes(LIMIT), message)


def fewer_steps(folder):
    comm = lowtide.Communicator.create()
    with lowtide.Watchdog(comm, timeout=TIMEOUT):
        for _ in range(3 if comm.rank == BAD else 10):
            comm.allreduce(torch.ones(10))
    time.sleep(LIMIT if comm.rank == BAD else 0)


@pytest.mark.sweep
def test_a_rank_that_leaves_before_the_others(tmp_path):
    require_others_end(tmp_path, fewer_steps, "it has left the training after")


def different(folder):
    comm = lowtide.Communicator.create()
    other = comm.rank == BAD
    with lowtide.Watchdog(comm, timeout=TIMEOUT, model=torch.nn.Linear(4, 4),
                          inputs=(torch.ones(2 + other, 4),), budget="2GiB", slices=8):
        raise AssertionError("this is not reached")


def test_a_rank_with_other_inputs(tmp_path):
    found = outcomes_of(tmp_path, different)
    assert {outcome.error for outcome in found} == {found[0].error}
    kind, text = found[0].error
    assert kind == "InputError"
    assert "rank 1 has inputs.0 = float32[3, 4] instead of float32[2, 4] (rank 0)" in text


def absent(folder):
    comm = lowtide.Communicator.create()
    if comm.rank == BAD:
        time.sleep(LIMIT)
    with lowtide.Watchdog(comm, timeout=TIMEOUT):
        pass


@pytest.mark.sweep
def test_a_rank_that_never_begins(tmp_path):
    require_others_end(tmp_path, absent, "it has not begun the watchdog for 3 s")


def twice_without_fault(folder):
    first = training(folder, go_on, steps=5, model=torch.nn.Linear(2, 2))
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    backend = torch.distributed.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.options._timeout.total_seconds() == 1800
    return first, training(folder, go_on, steps=5)


def test_a_training_without_faults_ends_as_one_without_a_watchdog(tmp_path):
    found = outcomes_of(tmp_path, twice_without_fault)
    assert [outcome.value for outcome in found] == [("done", "done")] * SIZE


def test_one_rank_needs_nobody(tmp_path):
    with RankProcesses(tmp_path, training, 1, tmp_path, go_on, TIMEOUT, 5) as ranks:
        assert ranks.outcomes(LIMIT)[0].value == "done"


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), "1", True])
def test_a_wrong_timeout_is_refused(timeout):
    with pytest.raises(lowtide.InputError, match="timeout must be seconds"):
        lowtide.Watchdog(None, timeout=timeout)


@pytest.fixture
def board():
    return RankBoard(torch.distributed.HashStore(), "test", 60.)


def test_the_first_failure_is_the_one_of_all(board):
    assert board.failure() is None and board.announced(0) is None
    first, second = Failure(2, "a"), Failure(None, "b")
    assert board.report(first) == first
    assert board.report(second) == first == board.failure()


def test_kills_for_want_of_memory_are_told(board, monkeypatch):
    """Of a process that has ended."""
    board.announce(1, dataclasses.replace(this_process(), started="never"))
    assert board.announced(1).state() == GONE
    assert this_process().state() == RUNNING
    board.beat(1, Beat(1, 0))
    for killed, told in ((7, True), (5, False), (None, False)):
        counts = iter([5, killed])
        monkeypatch.setattr(rank_monitor, "processes_killed_for_memory", lambda: next(counts))
        monitor = rank_monitor.RankMonitor(board, 0, 2, 60., lambda: 0)
        monitor.beat()
        failure = monitor._judged(1, Suspicion("gone", 0.))
        assert failure.rank == 1
        assert ("killed 2 processes for want of memory" in failure.reason) == told


def seen(history, beat, now, own_calls=5, state=RUNNING):
    found = history.suspicion(beat, own_calls, state, now, silence=10, waiting=20)
    return found and found.kind


def test_what_is_seen_of_a_rank():
    history = PeerHistory(Beat(1, 5), 0.)
    assert seen(history, Beat(1, 5), 10.) is None
    assert seen(history, Beat(1, 5), 10.1) == "silent"
    assert seen(history, Beat(2, 5), 11.) is None  # it beats again
    assert seen(history, Beat(3, 5), 12., own_calls=6) is None
    for second in range(12, 32):
        assert seen(history, Beat(second, 5), float(second), own_calls=6) is None
    assert seen(history, Beat(40, 6), 32., own_calls=7) is None  # it has begun the next one
    assert seen(history, Beat(41, 6), 51., own_calls=7) is None
    assert seen(history, Beat(42, 6), 52.1, own_calls=7) == "behind"
    assert seen(history, Beat(43, 7), 52.2, own_calls=7, state=STOPPED) is None
    assert seen(history, Beat(43, 7), 52.3, own_calls=7, state=GONE) == "gone"
    assert seen(history, Beat(43, 7, True), 200., own_calls=7, state=GONE) is None
    assert seen(history, Beat(43, 7, True), 220.1, own_calls=8) == "behind"
