"""What ranks send in fewer bits: parameters that are used so alone, and by mp_policy."""

import contextlib
import warnings
from unittest import mock

import lowtide
import pytest
import torch
from lowtide.pytorch.shards import rewrite
from lowtide.pytorch.shards.collectives import GATHER_STARTS
from lowtide.pytorch.wrap import session_of
from shards_cases import adam, batches, descent, made, mesh_of, parameters_of, trained, wrapped
from sweep import sweep
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32

#: Of the blocks, and of what is around them.
POLICIES = {
    "all": (MixedPrecisionPolicy(BF16), MixedPrecisionPolicy(BF16)),
    "reduced in f32": (MixedPrecisionPolicy(BF16, FP32), MixedPrecisionPolicy(BF16, FP32)),
    "blocks": (MixedPrecisionPolicy(BF16, FP32, FP32), MixedPrecisionPolicy()),
    "reduced alone": (MixedPrecisionPolicy(reduce_dtype=BF16), MixedPrecisionPolicy()),
    "outputs": (MixedPrecisionPolicy(FP16, output_dtype=FP32, cast_forward_inputs=True),
                MixedPrecisionPolicy(output_dtype=BF16)),
}
#: Whose losses have all their bits.
IN_FULL = "blocks", "reduced alone"


def with_policies(mesh, policies):
    model = made("gpt")
    of_blocks, around = policies
    for block in model.blocks:
        fully_shard(block, mesh=mesh_of(mesh), mp_policy=of_blocks)
    return fully_shard(model, mesh=mesh_of(mesh), mp_policy=around)


def gathered_bytes(model):
    """What all gathers of a step make, each run once."""
    graph = session_of(model)._graphs.latest.priced.graph
    return sum(graph.tensors[index].bytes for op in graph.ops if op.type in GATHER_STARTS
               for index in op.outputs)


def prepared(rank, mesh, name):
    policies = POLICIES[name]
    model = with_policies(mesh, policies)
    expected = trained(model, descent(model), batches("gpt", rank))
    other = with_policies(mesh, policies)
    optimizer = descent(other)
    planned = lowtide.wrap(other, batches("gpt", rank)[0], optimizer=optimizer, cache=False,
                           time_limit=0.3)
    found = trained(planned, optimizer, batches("gpt", rank))
    parameters = parameters_of(model), parameters_of(planned)
    with torch.no_grad():
        evaluated = planned(*batches("gpt", rank)[0]), model(*batches("gpt", rank)[0])
    return expected, found, parameters, evaluated


#: Of a loss in bfloat16, the largest share that its last bit is worth: kernels of some processors
#: add up in other orders.
LAST_BIT = 2 ** -7


def require_like(results, rel=LAST_BIT):
    for expected, found, (parameters, planned), evaluated in results:
        assert found == pytest.approx(expected, rel=rel)
        for name, parameter in parameters.items():
            torch.testing.assert_close(planned[name], parameter, rtol=4e-2, atol=4e-3)
        torch.testing.assert_close(*evaluated, rtol=8e-3, atol=1e-3)


@pytest.mark.parametrize("name", sweep(list(POLICIES), usual=["reduced in f32", "reduced alone"]))
def test_modules_compute_in_the_types_of_their_policy(two, name):
    # Losses in f32 would tell a gradient that was reduced in another type.
    require_like(two.run(prepared, 2, name), 1e-6 if name in IN_FULL else LAST_BIT)


@pytest.mark.sweep
def test_copies_of_shards_are_reduced_in_the_types_of_their_policy(four):
    require_like(four.run(prepared, (2, 2), "all"))


def stashing(rank, mesh):
    """What is said of the error of gradients, and a step that has it."""
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model, given = made("deep"), batches("deep", rank, 1, rows=2048)
        optimizer = adam(model)
        model = lowtide.wrap(model, given[0], "70%", optimizer=optimizer, mesh=mesh_of(mesh),
                             sharding="full", coalesce=False, stash="int8",
                             strategy="keep-all", cache=False,
                             time_limit=0.1, verbose=False)
        trained(model, optimizer, given)
    return [str(one.message) for one in said if "with loss" in str(one.message)], model.memory


def test_the_error_of_gradients_is_measured_in_shards(two):
    for said, memory in two.run(stashing, 2):
        assert len(said) == 1 and "relative error of the gradients" in said[0]
        assert memory.measured_peak <= memory.budget


def in_precision(rank, casts_before):
    """Losses, parameters and gathered bytes where a parameter is cast before, or behind a gather.
    """
    behind = mock.patch.object(rewrite, "_narrowing_casts", lambda primal: [])
    with contextlib.nullcontext() if casts_before else behind:
        model, optimizer = wrapped("gpt", rank, 2, descent, sharding="full", budget=None,
                                   precision="bf16")
        losses = trained(model, optimizer, batches("gpt", rank))
        return losses, parameters_of(model), gathered_bytes(model)


def test_what_is_used_in_fewer_bits_alone_is_gathered_so(two):
    for (losses, parameters, sent), (expected, others, sent_whole) in zip(
            two.run(in_precision, True), two.run(in_precision, False)):
        assert losses == expected
        assert all(torch.equal(others[name], value) for name, value in parameters.items())
        assert sent < 0.7 * sent_whole  # the embedding is read in f32 too
