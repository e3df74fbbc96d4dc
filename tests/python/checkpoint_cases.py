"""A training whose steps are the same rows on any number of ranks, saved and gone on with."""

import hashlib

import lowtide
import torch
import torch.distributed as dist
from rank_processes import said
from torch.distributed.fsdp import fully_shard

ROWS = 12  # of a batch, of all ranks together
WIDTH = 5  # divides by no number of ranks


def model_of(kind, dropout):
    """Linear layers, one tied pair, more ranks than rows in some; in float64."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Dropout(dropout),
              torch.nn.Linear(WIDTH, 1)]
    model = torch.nn.Sequential(*layers).double()
    if kind == "sharded":
        mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
        return fully_shard(model, mesh=mesh)
    return torch.nn.parallel.DistributedDataParallel(model)


def rows_of_step(comm, step):
    generator = torch.Generator().manual_seed(step)
    rows = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    return rows.chunk(comm.size)[comm.rank]


def digest_of(model):
    """Of all bits of the whole parameters."""
    found = hashlib.sha256()
    for parameter in model.parameters():
        whole = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
        found.update(whole.detach().numpy().tobytes())
    return found.hexdigest()


def training(folder, kind, steps, *, dropout=0.0, every=1, keep=2, signs=None):
    """The step that it went on from, the losses since, and digests then and at the end. ``signs``:
    a folder to which each saved step is told once it is complete."""
    comm = lowtide.Communicator.create()
    with lowtide.Checkpointer(folder, comm, keep=keep) as checkpoints:
        model = model_of(kind, dropout)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        torch.manual_seed(comm.rank)
        restored = checkpoints.load(model, optimizer)
        begin = 0
        if restored is not None:
            schedule.load_state_dict(restored.extra["schedule"])
            begin = restored.extra["position"]
            assert begin == restored.step
        before, losses = digest_of(model), []
        for step in range(begin, steps):
            loss = model(rows_of_step(comm, step)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            losses.append(comm.allreduce(loss, "mean").item())
            if (step + 1) % every == 0:
                checkpoints.save(step + 1, model, optimizer, extra={
                    "position": step + 1, "schedule": schedule.state_dict()})
                if signs is not None:
                    said(signs, f"begun-{step + 1:04d}")
                    checkpoints.wait()
                    said(signs, f"complete-{step + 1:04d}")
    return begin, losses, before, digest_of(model)
