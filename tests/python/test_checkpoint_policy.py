"""Plans as selective checkpointing: gradients of eager to the bit, and the plan's bytes saved."""

import lowtide
import pytest
import torch
from joint_graphs import Chain, compiled
from lowtide.pytorch.capture import from_joint
from lowtide.pytorch.capture.roofline import priced
from lowtide.pytorch.checkpoint_policy import policy
from lowtide.pytorch.checkpoint_policy.held_over_boundary import held_over_boundary
from lowtide.pytorch.export import selective_checkpoint_policy
from lowtide.pytorch.joint_graph.primals import mutated_primals
from on_device import DEVICE
from torch import nn
from torch._functorch.partitioners import default_partition
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import SelectiveCheckpointContext, checkpoint
from torch_memory import profiled

pytestmark = pytest.mark.usefixtures("one_thread")

needs_results = pytest.mark.skipif(
    not hasattr(SelectiveCheckpointContext(is_recompute=False), "op_output"),
    reason="this PyTorch shows no results to a checkpoint policy")


class Image(nn.Module):
    """Batch norm, dropout twice, an op of two results, and a product that is no dropout's."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.norm, self.drop = nn.BatchNorm2d(6), nn.Dropout(0.3)

    def forward(self, x):
        x = self.drop(torch.relu(self.norm(self.first(x))))
        x = self.drop(self.second(x).sigmoid() * x)
        return torch.max_pool2d(x, 2).exp()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(16), nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = self.mix(self.norm(x)).view(2, 8, 3, 2, 8).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + nn.functional.gelu(self.out(y.transpose(1, 2).reshape(2, 8, 16)))


CASES = {"chain": (lambda: Chain(16, 6), (512, 16)), "image": (Image, (2, 2, 8, 8)),
         "attention": (Attention, (2, 8, 16))}


def capture(module, inputs):
    found = []

    def partition(joint, joint_inputs, *, num_fwd_outputs, **given):
        primals = [n for n in joint.graph.find_nodes(op="placeholder")
                   if n.target.startswith("primals")]
        found.append(from_joint(
            joint, num_fwd_outputs, name="module", primal_roles=["input"] * len(primals),
            primal_names=[n.target for n in primals], updated=mutated_primals(joint)))
        return default_partition(joint, joint_inputs, num_fwd_outputs=num_fwd_outputs, **given)

    state = {name: value.clone() for name, value in module.state_dict().items()}
    compiled(module, partition)(inputs).sum().backward()
    module.load_state_dict(state)
    module.zero_grad()
    return found[0]


def step(module, run, inputs):
    state = {name: value.clone() for name, value in module.state_dict().items()}
    torch.manual_seed(3)
    x = inputs.clone().requires_grad_()
    y = run(x)
    y.square().sum().backward()
    after = [y.detach(), x.grad, *(p.grad.clone() for p in module.parameters()),
             *(b.clone() for b in module.buffers())]
    module.zero_grad()
    module.load_state_dict(state)
    return after


def checkpointed(module, captured, plan):
    context_fn = selective_checkpoint_policy(captured, plan)
    return lambda x: checkpoint(module, x, use_reentrant=False, context_fn=context_fn)


@pytest.fixture(scope="module", params=CASES)
def case(request):
    make, shape = CASES[request.param]
    torch.manual_seed(0)
    module, inputs = make(), torch.randn(shape)
    captured = capture(module, inputs)
    return request.param, module, inputs, captured, priced(captured)


@needs_results
@pytest.mark.parametrize("budget", ["100%", "75%", "60%"])
def test_a_step_has_the_bits_of_eager(case, budget):
    _, module, inputs, captured, graph = case
    found = lowtide.plan(graph, budget, time_limit=0.3)
    plan = found.plan or lowtide.plan(graph, found.smallest_budget, time_limit=1.0).plan
    wanted = step(module, module, inputs)
    got = step(module, checkpointed(module, captured, plan), inputs)
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))


@needs_results
@pytest.mark.parametrize("budget", ["100%", "75%", "60%"])
def test_the_saved_bytes_are_those_of_the_plan(budget):
    module, inputs = Chain(16, 6), torch.randn(512, 16)
    captured = capture(module, inputs)
    plan = lowtide.plan(priced(captured), budget, time_limit=0.3).plan
    held = held_over_boundary(captured, plan)
    planned = sum(captured.graph.tensors[index].bytes for index in held)
    run, kept = checkpointed(module, captured, plan), []
    _, in_use, _ = profiled(lambda: kept.append(run(inputs)))
    # The output is the caller's, and none of the plan's bytes. States of generators are the host's.
    state = torch.get_rng_state().nbytes if DEVICE == "cpu" else 0
    assert in_use == planned + kept[0].nbytes + state


@needs_results
def test_less_budget_saves_less():
    module, inputs = Chain(16, 6), torch.randn(512, 16)
    captured = capture(module, inputs)
    graph = priced(captured)
    kept = [held_over_boundary(captured, lowtide.plan(graph, b, time_limit=0.3).plan)
            for b in ("100%", "60%")]
    assert len(kept[1]) < len(kept[0]) == len(module.layers)


def test_a_pytorch_that_shows_no_results_is_refused(monkeypatch):
    monkeypatch.setattr(policy, "SelectiveCheckpointContext", lambda is_recompute: object())
    module, inputs = Chain(16, 6), torch.randn(512, 16)
    captured = capture(module, inputs)
    with pytest.raises(lowtide.Error, match="Use 2.13 or later"):
        selective_checkpoint_policy(captured, lowtide.keep_all(captured.graph))


@needs_results
def test_another_module_is_refused():
    module, inputs = Chain(16, 6), torch.randn(512, 16)
    captured = capture(module, inputs)
    plan = lowtide.keep_all(captured.graph)
    with pytest.raises(lowtide.InputError, match="aten::tanh"):
        checkpointed(nn.Sequential(*module.layers), captured, plan)(inputs)
