"""The device's generator draws what a CPU generator with the same seed draws."""

import torch
from both_devices import assert_same_bits
from torch.nn import functional as F


def test_draws_are_those_of_the_cpu():
    def program(device):
        x = torch.rand(40, device=device)
        return [torch.randn(33, device=device), torch.randn(5, dtype=torch.float64, device=device),
                x, torch.randint(9, (7,), device=device), torch.randperm(20, device=device),
                torch.bernoulli(x), torch.multinomial(x, 5), torch.poisson(x), torch.rand_like(x),
                torch.randn_like(x), torch.normal(x, 1.0), x.clone().exponential_(),
                x.clone().uniform_(2, 3), x.clone().random_(), x.clone().cauchy_(),
                F.dropout(x, 0.4), F.alpha_dropout(x, 0.4, True),
                torch.native_dropout(x, 0.4, True)[0], F.rrelu(x - 1, training=True),
                F.gumbel_softmax(x)]

    assert_same_bits(program)


def test_the_device_draws_from_its_own_generator():
    torch.manual_seed(5)
    alone = torch.randn(4)
    torch.manual_seed(5)
    torch.randn(9, device="simulated")
    F.dropout(torch.ones(9, device="simulated"), 0.5)
    torch.native_dropout(torch.ones(9, device="simulated"), 0.5, True)
    assert torch.equal(torch.randn(4), alone)


def test_states_are_saved_and_restored():
    torch.simulated.manual_seed(3)
    state = torch.simulated.get_rng_state()
    first = torch.randn(5, device="simulated")
    torch.simulated.set_rng_state(state)
    assert torch.equal(torch.randn(5, device="simulated").cpu(), first.cpu())
    with torch.random.fork_rng(devices=[0], device_type="simulated"):
        torch.simulated.manual_seed(3)
        assert torch.equal(torch.randn(5, device="simulated").cpu(), first.cpu())
    assert torch.simulated.initial_seed() == 3


def test_generators_of_the_users():
    mine = torch.Generator(device="simulated").manual_seed(4)
    found = torch.randn(6, generator=mine, device="simulated")
    same = torch.randn(6, generator=torch.Generator().manual_seed(4))
    assert torch.equal(found.cpu(), same)


def test_a_generator_of_the_cpu_is_refused():
    x = torch.empty(3, device="simulated")
    try:
        x.normal_(generator=torch.Generator())
    except RuntimeError as error:
        assert "generator" in str(error)
    else:
        raise AssertionError("it drew from a generator of another device")
