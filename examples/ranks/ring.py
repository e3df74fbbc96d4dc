"""Allgather, reduce-scatter and allreduce as rings of sends and receives, to learn from.

    torchrun --nproc-per-node 4 examples/ranks/ring.py

The ranks sit in a circle. Each sends to the next one and receives from the one before, so that all
links are busy all the time. A tensor of n bytes is cut into a piece for each of p ranks; after p-1
turns of pieces a reduce-scatter or an allgather is done, and each rank has sent (p-1)/p of n bytes.
An allreduce is one after the other: 2(p-1)/p, which hardly grows with p (Patarasuk and Yuan,
"Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
"""

import torch
import torch.distributed as dist


def allgather(piece, pieces):
    """Fills the list ``pieces``, whose tensors have the right shapes, with those of all ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    pieces[rank].copy_(piece)
    for turn in range(size - 1):
        # Each piece moves one rank on: the own one first, then what came in the turn before.
        pass_on(pieces[(rank - turn) % size], pieces[(rank - turn - 1) % size])
    return pieces


def reduce_scatter(pieces):
    """The sum over all ranks of the piece of this rank's number; the others hold partial sums."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for turn in range(size - 1):
        # A piece starts behind its rank and gains an addend at each rank of the circle.
        mine = pieces[(rank - turn - 2) % size]
        arrived = torch.empty_like(mine)
        pass_on(pieces[(rank - turn - 1) % size], arrived)
        mine += arrived
    return pieces[rank]


def allreduce(x):
    """The sum of the tensors of all ranks, which have one shape."""
    total = x.clone()
    pieces = list(total.view(-1).tensor_split(dist.get_world_size()))
    allgather(reduce_scatter(pieces), pieces)  # the pieces are parts of `total`
    return total


def pass_on(sent, arrived):
    """Sends to the next rank while receiving from the one before: were both to send first, and
    to wait until that is done, nobody would receive."""
    rank, size = dist.get_rank(), dist.get_world_size()
    sending = dist.isend(sent, (rank + 1) % size)
    receiving = dist.irecv(arrived, (rank - 1) % size)
    sending.wait()
    receiving.wait()


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.arange(10.) * (rank + 1)
    by_ring, by_gloo = allreduce(x), x.clone()
    dist.all_reduce(by_gloo)
    if rank == 0:
        print(f"{size} ranks, by a ring: {by_ring.tolist()}")
        print(f"{size} ranks, by Gloo:   {by_gloo.tolist()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
