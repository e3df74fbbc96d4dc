"""The state of an optimizer lies in slower memory, of which a copy fails: no wrong number."""

import contextlib
import copy
import gc
import os
import random
import resource
import signal
import threading

import lowtide
import pytest
import torch
from optimizer_state_cases import (
    OPTIMIZERS,
    Pair,
    Words,
    away,
    equal,
    files_in,
    in_groups,
    on_cpu,
    steps,
    tokens,
    wrapped,
)
from wrap_cases import built, same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


@on_cpu
def test_a_full_disk_is_an_error_before_the_first_step(tmp_path):
    model = built(Words)
    optimizer = in_groups(model, OPTIMIZERS["adam"])
    wrapped(model, optimizer, tmp_path)  # measures ops
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(lowtide.Error, match=f"cannot reserve .* in the folder {tmp_path}"):
            wrapped(model, optimizer, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    steps(model, optimizer, 2)  # as before


@on_cpu
def test_a_failing_disk_is_an_error_until_a_checkpoint_is_loaded(tmp_path):
    pair = Pair(tmp_path)
    pair.run()
    saved = copy.deepcopy(pair.optimizer.state_dict())
    parameters = [p.detach().clone() for p in pair.model.parameters()]
    for file in files_in(tmp_path):
        os.ftruncate(file, 0)
    pair.model(tokens(4)).backward()
    with pytest.raises(lowtide.Error, match=f"piece 1 of the optimizer's state.*{tmp_path}"):
        pair.optimizer.step()
    with pytest.raises(lowtide.Error, match="optimizer's state"):
        pair.optimizer.state_dict()
    with torch.no_grad():
        for parameter, before in zip(pair.model.parameters(), parameters):
            parameter.copy_(before)
    pair.optimizer.load_state_dict(saved)
    pair.run(2, first=4)
    pair.require_same()


@on_cpu
def test_state_that_cannot_be_written_stays_in_memory(tmp_path):
    plain, model = built(Words), built(Words)
    plain_optimizer, optimizer = (in_groups(m, OPTIMIZERS["adam"]) for m in (plain, model))
    model = wrapped(model, optimizer, tmp_path, "200MiB")  # in one piece
    steps(plain, plain_optimizer, 7)
    steps(model, optimizer, 4)
    optimizer.zero_grad()
    model(tokens(4)).backward()
    [file] = files_in(tmp_path)
    kept, unwritable = os.dup(file), os.open(f"/proc/self/fd/{file}", os.O_RDONLY)
    os.dup2(unwritable, file)
    with pytest.raises(lowtide.Error, match=f"piece 1 of the optimizer's state.*{tmp_path}"):
        optimizer.step()
    os.dup2(kept, file)
    os.close(kept)
    os.close(unwritable)
    assert away(optimizer) == 0  # nor what had no gradient, as it lay in the same piece
    steps(model, optimizer, 2, first=5)
    assert same(list(model.parameters()), list(plain.parameters()))
    assert equal(optimizer.state_dict(), plain_optimizer.state_dict())


@on_cpu
def test_a_forked_process_is_told_that_it_cannot_have_the_state(tmp_path):
    pair = Pair(tmp_path)
    pair.run()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends it
        try:
            pair.optimizer.state_dict()
        except lowtide.Error as error:
            if "before the fork" in str(error):
                pair.model = pair.optimizer = None
                gc.collect()  # the stores too
                os._exit(3)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    pair.run(2, first=4)
    pair.require_same()


def test_a_step_that_fails_within_a_parameter_that_is_cut_is_no_wrong_number(tmp_path, monkeypatch):
    pair = Pair(tmp_path)
    pair.run()
    kind, calls = type(pair.optimizer), []
    plain = kind.step.__wrapped__

    def failing(self, closure=None):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("no more memory")
        return plain(self, closure)

    pair.model(tokens(4)).backward()
    with monkeypatch.context() as patch:
        patch.setattr(kind.step, "__wrapped__", failing)
        with pytest.raises(RuntimeError, match="no more memory"):
            pair.optimizer.step()
    for look in (pair.optimizer.step, pair.optimizer.state_dict,
                 lambda: pair.optimizer.state[pair.model.table.weight]):
        with pytest.raises(lowtide.Error, match="half way: load a checkpoint"):
            look()
    assert pair.optimizer.state[pair.model.scale]["step"] == 4


def test_ctrl_c_leaves_each_parameter_as_before_or_after(tmp_path):
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("Ctrl-C is the main thread's")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    choose = random.Random(1)
    pair = Pair(tmp_path)
    pair.run()
    reached = [pair.plain_optimizer.state_dict(), None]
    reached[0] = copy.deepcopy([list(pair.plain.parameters()), reached[0]["state"]])
    steps(pair.plain, pair.plain_optimizer, 1, first=4)
    reached[1] = copy.deepcopy([list(pair.plain.parameters()),
                                pair.plain_optimizer.state_dict()["state"]])
    saved = copy.deepcopy(pair.optimizer.state_dict())
    try:
        for _ in range(12):
            with torch.no_grad():
                for parameter, value in zip(pair.model.parameters(), reached[0][0]):
                    parameter.copy_(value)
            pair.optimizer.load_state_dict(saved)
            pair.optimizer.zero_grad()
            pair.model(tokens(4)).backward()
            timer = threading.Timer(choose.uniform(0, 0.01),
                                    lambda: os.kill(os.getpid(), signal.SIGINT))
            with contextlib.suppress(KeyboardInterrupt):
                timer.start()
                pair.optimizer.step()
                timer.join()
                signal.sigpending()
            state = pair.optimizer.state_dict()["state"]
            named = {id(p): number for number, p in enumerate(
                p for group in pair.optimizer.param_groups for p in group["params"])}
            for number, parameter in enumerate(pair.model.parameters()):
                place_in_state = named[id(parameter)]
                matches = [equal([parameter], [values[number]])
                           and equal(state.get(place_in_state, {}), of.get(place_in_state, {}))
                           for values, of in reached]
                assert any(matches), number
    finally:
        signal.signal(signal.SIGINT, before)
