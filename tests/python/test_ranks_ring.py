"""The ring of examples/ranks beside the backend's collectives and the communicator's."""

import importlib.util
import pathlib

import lowtide
import pytest
import torch
import torch.distributed as dist
from rank_processes import values_of_ranks
from sweep import sweep

RING = pathlib.Path(__file__).resolve().parents[2] / "examples" / "ranks" / "ring.py"

pytestmark = pytest.mark.cpu_only("the ranks of these tests are on the CPU")


def ring_of_examples():
    spec = importlib.util.spec_from_file_location("ring", RING)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def beside_the_communicator():
    ring, sent = ring_of_examples(), []
    plain = ring.pass_on

    def counted(piece, arrived):
        sent.append(piece.numel() * piece.element_size())
        plain(piece, arrived)

    ring.pass_on = counted
    with lowtide.Communicator.create() as comm:
        for rows in (0, 1, 7, 64):
            x = torch.arange(float(rows)) * (comm.rank + 1) - 3
            assert torch.equal(ring.allreduce(x), comm.allreduce(x))
            pieces = [piece.clone() for piece in x.chunk(comm.size)]
            pieces += [x.new_empty(0)] * (comm.size - len(pieces))
            assert torch.equal(ring.reduce_scatter(pieces), comm.reduce_scatter(x))
            mine = x[:3] + comm.rank
            everything = [torch.empty_like(mine) for _ in range(comm.size)]
            assert torch.equal(torch.cat(ring.allgather(mine, everything)), comm.allgather(mine))
        sent.clear()
        ring.allreduce(torch.ones(24 * comm.size))
        return sum(sent)


@pytest.mark.parametrize("size", sweep([1, 2, 3, 5], usual=[3]))
def test_the_ring_is_the_communicators_collectives(tmp_path, size):
    """And sends 2(p-1)/p of the bytes."""
    for sent in values_of_ranks(tmp_path, beside_the_communicator, size):
        assert sent == 2 * (size - 1) * 24 * 4


def printed_by_main(path):
    import runpy

    runpy.run_path(path, run_name="__main__")
    assert not dist.is_initialized()


def test_the_program_runs(tmp_path):
    values_of_ranks(tmp_path, printed_by_main, 2, str(RING))
    first, second = (tmp_path / "stderr-0").read_text().splitlines()[-2:]
    assert first.split(":")[1].strip() == second.split(":")[1].strip() == str(
        [3. * i for i in range(10)])
