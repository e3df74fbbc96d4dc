"""Runs a program on the CPU and on the simulated device, and compares bit by bit."""

import torch

DEVICES = ("cpu", "simulated")


def bits(tensor):
    """The bytes of a tensor, so that NaNs compare too, with its layout."""
    stride = tensor.stride()
    tensor = tensor.detach().cpu()
    flat = tensor.contiguous().resolve_conj().resolve_neg()
    view = torch.view_as_real(flat) if flat.is_complex() else flat
    return (tensor.dtype, tensor.shape, stride,
            view.reshape(-1).view(torch.uint8).numpy().tobytes())


def outcomes(program):
    """What a program returns per device, in bits. It is given the device, after one seed for all.
    """
    found = []
    for device in DEVICES:
        torch.manual_seed(7)
        found.append([bits(tensor) for tensor in program(device)])
    return found


def assert_same_bits(program):
    on_cpu, simulated = outcomes(program)
    assert len(on_cpu) == len(simulated) > 0
    for number, (expected, found) in enumerate(zip(on_cpu, simulated)):
        assert found[:3] == expected[:3], f"tensor {number}"
        assert found[3] == expected[3], f"tensor {number} of shape {found[1]}"


def trained(device, make_model, make_batch, loss_of, *, steps=3, make_optimizer=torch.optim.SGD,
            autocast=None, prepare=lambda model, batch: model, **options):
    """Losses, parameters and gradients after some steps. The model and the batches are made on the
    CPU, with the same bits for every device. ``prepare`` gives what is called in the model's
    place."""
    model = make_model().to(device)
    batches = [[part.to(device) for part in make_batch()] for _ in range(steps)]
    run = prepare(model, batches[0])
    optimizer = make_optimizer(model.parameters(), lr=0.01, **options)
    losses = []
    torch.manual_seed(11)
    for batch in batches:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=autocast or torch.bfloat16, enabled=bool(autocast)):
            loss = loss_of(run, *batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    parameters = list(model.parameters())
    return (losses + [p.detach() for p in parameters] + [p.grad for p in parameters]
            + list(model.buffers()))
