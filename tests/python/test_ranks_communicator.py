"""Collectives of many ranks beside what one process computes from the tensors of all of them."""

import random

import lowtide
import pytest
import torch
import torch.distributed as dist
from rank_processes import values_of_ranks
from sweep import sweep

MOST = 8
REDUCED = {
    "sum": [torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32,
            torch.int64, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
            torch.complex64, torch.complex128],
    "mean": [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64],
}
REDUCED["max"] = [dtype for dtype in REDUCED["sum"] if not dtype.is_complex] + [torch.bool]
REDUCED["min"] = REDUCED["product"] = REDUCED["max"]
CARRIED = [*REDUCED["sum"], torch.bool, torch.complex32, torch.float8_e4m3fn, torch.float8_e5m2]
SHAPES = [(), (0,), (1,), (5,), (7, 3), (3, 0, 2), (16, 2), (2, 3, 4), (9,)]

pytestmark = pytest.mark.cpu_only("the ranks of these tests are on the CPU")


def tensor_of(rank, shape, dtype, seed, *, exact=True):
    """Of small whole numbers, whose reductions no order of operations changes."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    whole = torch.randint(0, 3, shape, generator=generator)
    if not exact:
        return (whole + torch.rand(shape, generator=generator)).to(dtype)
    if dtype == torch.int16:  # some sums and products wrap around
        whole = whole * 20000
    if dtype in (torch.uint32, torch.uint64):
        whole = whole.to(torch.int64) * (2**31 if dtype == torch.uint32 else 2**62 + 1)
    if dtype.is_complex:
        whole = torch.complex(whole.double(), whole.double() - 1)
    return whole.to(dtype)


def reduced(tensors, op):
    """In Python's own numbers: whole ones of any size, complex ones of two floats."""
    dtype, shape = tensors[0].dtype, tensors[0].shape
    columns = zip(*(tensor.reshape(-1).tolist() for tensor in tensors))
    by_op = {"sum": sum, "mean": lambda numbers: sum(numbers) / len(tensors), "max": max,
             "min": min, "product": product}
    numbers = [by_op[op](column) for column in columns]
    if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
        return torch.tensor(numbers, dtype=torch.complex128 if dtype.is_complex else
                            torch.float64).to(dtype).reshape(shape)
    info = torch.iinfo(dtype)
    count = 1 << info.bits
    wrapped = [(number - info.min) % count + info.min for number in numbers]
    return torch.tensor(wrapped, dtype=dtype).reshape(shape)


def product(numbers):
    found = 1
    for number in numbers:
        found *= number
    return found


def equal_bits(x, y):
    return (x.dtype, x.shape) == (y.dtype, y.shape) and torch.equal(bytes_in(x), bytes_in(y))


def bytes_in(x):
    return x.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)


def not_contiguous(x):
    """The same values with other strides, and what they lie in."""
    around = torch.stack([x, x], dim=-1)
    return around[..., 0], around


def cases(size, count):
    draw = random.Random(size)
    for number in range(count):
        op = draw.choice(list(REDUCED))
        yield number, op, draw.choice(REDUCED[op]), draw.choice(SHAPES)


def require_reductions(comm, number, op, dtype, shape):
    tensors = [tensor_of(rank, shape, dtype, number) for rank in range(comm.size)]
    expected, (x, around) = reduced(tensors, op), not_contiguous(tensors[comm.rank])
    before = around.clone()
    case = comm.size, comm.rank, op, dtype, shape
    everything = comm.allreduce(x, op)
    assert equal_bits(everything, expected), (case, everything, expected)
    mine = comm.reduce_scatter(x, op)
    rows = expected if shape else expected.reshape(1)
    begin, end = comm.rows_of(comm.rank, len(rows))
    assert equal_bits(mine, rows[begin:end]), (case, mine)
    assert equal_bits(comm.allgather(mine), rows), case
    assert equal_bits(around, before), case
    assert comm.allreduce(x, op, in_place=True) is x and equal_bits(x, expected), case


def require_carried(comm, number, dtype, shape):
    counts = [rank % 3 for rank in range(comm.size)]
    tensors = [tensor_of(rank, (count, *shape[1:]), torch.int32, number).to(dtype)
               for rank, count in enumerate(counts)]
    everything = torch.cat([bytes_in(x) for x in tensors]).view(dtype)
    assert equal_bits(comm.allgather(tensors[comm.rank]),
                      everything.reshape(sum(counts), *shape[1:])), (dtype, shape)
    root = number % comm.size
    tensors = [tensor_of(rank, shape, torch.int32, number).to(dtype) for rank in range(comm.size)]
    mine = tensors[comm.rank].clone()
    assert equal_bits(comm.broadcast(mine, root), tensors[root]), (dtype, shape)
    assert equal_bits(mine, tensors[comm.rank])
    assert comm.broadcast(mine, root, in_place=True) is mine and equal_bits(mine, tensors[root])


def on_groups_of_each_size(check):
    """Runs ``check`` on the first 1, 2, ... ranks."""
    with lowtide.Communicator.create() as everyone:
        found = []
        for size in range(1, everyone.size + 1):
            group = dist.new_group(list(range(size)))
            if everyone.rank < size:
                found.append(check(lowtide.Communicator.create(group)))
        everyone.barrier()
        return found


def properties(count, every):
    """``count`` reductions, and of the types that are carried one in ``every``, on each size."""
    def check(comm):
        for number, op, dtype, shape in cases(comm.size, count):
            require_reductions(comm, number, op, dtype, shape)
        for number, dtype in list(enumerate(CARRIED))[comm.size % every::every]:
            require_carried(comm, number, dtype, SHAPES[number % len(SHAPES)])
        return comm.size

    return on_groups_of_each_size(check)


@pytest.mark.parametrize("count, every", sweep([(6, 6), (100, 1)], usual=[(6, 6)]))
def test_collectives_are_those_of_one_process(tmp_path, count, every):
    values = values_of_ranks(tmp_path, properties, MOST, count, every)
    assert values[0] == list(range(1, MOST + 1))


def rounded_sums():
    def check(comm):
        found = []
        for number, dtype in enumerate((torch.float16, torch.bfloat16, torch.float32)):
            x = tensor_of(comm.rank, (1001,), dtype, number, exact=False)
            total = comm.allreduce(x)
            wide = torch.stack([tensor_of(rank, (1001,), dtype, number, exact=False).double()
                                for rank in range(comm.size)]).sum(0)
            torch.testing.assert_close(total.double(), wide, atol=0, rtol=comm.size * 2**-8)
            torch.testing.assert_close(comm.allgather(comm.reduce_scatter(x)), total,
                                       atol=0, rtol=comm.size * 2**-8)
            found.append(bytes_in(total).tolist())
        return found

    return on_groups_of_each_size(check)


def test_rounded_sums_are_the_same_bits_on_each_rank_and_in_each_run(tmp_path):
    first, second = (values_of_ranks(tmp_path, rounded_sums, 4) for _ in range(2))
    assert first == second
    for rank, sums in enumerate(first):
        assert sums == first[0][rank:]


def refusals():
    messages = []
    with lowtide.Communicator.create() as comm:
        def refused(call):
            with pytest.raises(lowtide.InputError) as caught:
                call()
            messages.append(str(caught.value))

        x = torch.ones(3)
        refused(lambda: comm.allreduce(x.double() if comm.rank == 1 else x))
        refused(lambda: comm.allreduce(x[:2] if comm.rank == 1 else x))
        refused(lambda: comm.allreduce(x, "max" if comm.rank == 1 else "min"))
        refused(lambda: comm.allgather(x) if comm.rank == 1 else comm.reduce_scatter(x))
        refused(lambda: comm.allgather(torch.ones(3, 4 + (comm.rank == 1))))
        refused(lambda: comm.barrier() if comm.rank == 1 else comm.broadcast(x))
        refused(lambda: comm.agree(model=torch.nn.Linear(3, 4 + (comm.rank == 1)), budget=5))
        refused(lambda: comm.agree(budget=7 if comm.rank == 1 else 5, options={"slices": None}))
        comm.agree(model=torch.nn.Linear(3, 4), step=len, options=[1, "a", x])
        assert comm.allreduce(x).tolist() == [3, 3, 3]  # and all goes on
        assert comm.allgather_text("äö" * comm.rank) == ["", "äö", "äöäö"]
    return messages


def test_a_rank_that_calls_something_else_is_named_on_each_rank(tmp_path):
    first, *others = values_of_ranks(tmp_path, refusals, 3)
    assert all(messages == first for messages in others)
    assert all("rank 1 has" in message for message in first)
    assert "allreduce(sum) of float64[3] instead of allreduce(sum) of float32[3]" in first[0]
    assert "model.bias = float32[5] instead of float32[4]" in first[6]
    assert "budget = 7 instead of 5" in first[7]


@pytest.fixture
def alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def test_one_process_needs_no_launcher(alone):
    with lowtide.Communicator.create() as comm:
        assert (comm.rank, comm.size) == (0, 1)
        x = torch.arange(6.).reshape(2, 3)
        for result in (comm.allreduce(x, "mean"), comm.reduce_scatter(x), comm.allgather(x),
                       comm.broadcast(x), comm.allreduce(x.requires_grad_())):
            assert torch.equal(result, x) and result.data_ptr() != x.data_ptr()
            assert not result.requires_grad
        comm.barrier()
        assert dist.is_initialized()
    assert not dist.is_initialized()
    comm.close()
    with pytest.raises(lowtide.InputError, match="after close"):
        comm.barrier()


def test_a_group_of_others_is_used_and_left_open(alone):
    with lowtide.Communicator.create():
        with lowtide.Communicator.create() as second:
            second.barrier()
        assert dist.is_initialized()


@pytest.mark.parametrize("call, message", [
    (lambda comm: comm.allreduce([1]), "takes a torch.Tensor, not list"),
    (lambda comm: comm.allreduce(torch.ones(2), "avg"), "op must be one of sum, mean"),
    (lambda comm: comm.allreduce(torch.ones(2, dtype=torch.int32), "mean"), "mean of int32"),
    (lambda comm: comm.allreduce(torch.ones(2, dtype=torch.bool)), "'sum' of bool is not defined"),
    (lambda comm: comm.allreduce(torch.ones(2) * 1j, "max"), "'max' of complex64"),
    (lambda comm: comm.allreduce(torch.ones(2).to(torch.float8_e5m2)), "float8_e5m2"),
    (lambda comm: comm.allreduce(torch.ones(2).to_sparse()), "plain dense tensors"),
    (lambda comm: comm.allreduce(torch.ones(2, device="meta")), "is on meta"),
    (lambda comm: comm.allreduce(torch.ones(1).expand(3), in_place=True), "share memory"),
    (lambda comm: comm.broadcast(torch.ones(1), 1), "root must be a whole number"),
])
def test_calls_without_a_meaning_are_refused(alone, call, message):
    with (lowtide.Communicator.create() as comm,
          pytest.raises(lowtide.InputError, match=message)):
        call(comm)


@pytest.mark.parametrize("environment, message", [
    ({"RANK": "0", "WORLD_SIZE": "2"}, "lacks MASTER_ADDR, MASTER_PORT"),
    ({"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, "RANK is 2"),
    ({"RANK": "x", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, "whole number"),
])
def test_an_incomplete_environment_is_refused(alone, monkeypatch, environment, message):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(lowtide.InputError, match=message):
        lowtide.Communicator.create()
    assert not dist.is_initialized()


@pytest.mark.parametrize("wrong, message", [
    ({"group": 3}, "group must be"), ({"device": "meta"}, "device must be"),
    ({"timeout": 0}, "timeout must be"), ({"check": 1}, "check must be"),
])
def test_wrong_options_are_refused(alone, wrong, message):
    with pytest.raises(lowtide.InputError, match=message):
        lowtide.Communicator.create(**wrong)
    assert not dist.is_initialized()
