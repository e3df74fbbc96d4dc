"""Captured ops that may be written over an input: the executor does it, and bits stay."""

import lowtide
import pytest
import torch
from aten_calls import aten_ops, call_of, drawn
from capture_cases import capture_case
from joint_by_hand import JointByHand
from lowtide import _runtime
from lowtide.pytorch.capture import eager_kernels, from_joint, in_place
from on_device import seeded

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")

aten = torch.ops.aten
MARKED = [op for op in aten_ops() if in_place.is_pointwise(op)]
#: Arguments by name that the schema's defaults and a half leave out.
VARIANTS = {
    aten.add.Tensor: [dict(alpha=2)],
    aten.clamp.default: [dict(min=0), dict(max=0), dict(min=0, max=1)],
    aten.clamp.Tensor: [dict(min=None), dict(max=None)],
    aten.div.Tensor_mode: [dict(rounding_mode="floor"), dict(rounding_mode="trunc")],
    aten.gelu.default: [dict(approximate="tanh")],
    aten.gelu_backward.default: [dict(approximate="tanh")],
    aten.pow.Tensor_Scalar: [dict(exponent=number) for number in (0, 1, 2, 3, -0.5, -1, -2)],
}
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
#: Another dtype that arithmetic with the first leaves as the first is.
NARROWER = {torch.float32: torch.int64, torch.float64: torch.float32, torch.int64: torch.int32}
SHAPE = (5, 37)  # 37 elements leave a rest behind every vector register


def contiguous(dtype, generator):
    return drawn(SHAPE, dtype, generator)


def transposed(dtype, generator):
    return drawn(SHAPE[::-1], dtype, generator).t()


def strided(dtype, generator):
    return drawn((2 * SHAPE[0], 2 * SHAPE[1]), dtype, generator)[::2, 1::2]


def channels_last(dtype, generator):
    return drawn((2, 3, 4, 5), dtype, generator).contiguous(memory_format=torch.channels_last)


def row(dtype, generator):
    return drawn(SHAPE[1:], dtype, generator)


def column(dtype, generator):
    return drawn((SHAPE[0], 1), dtype, generator)


def scalar(dtype, generator):
    return drawn((), dtype, generator)


def narrower(dtype, generator):
    return contiguous(NARROWER.get(dtype, dtype), generator)


#: What lies where the result is to lie, and the tensors beside it.
LAYOUTS = [(channels_last, channels_last), (contiguous, transposed), (transposed, strided),
           (contiguous, row), (transposed, column), (contiguous, scalar)]


def calls(dtype, written, beside):
    """Pairs of a call that PyTorch takes and the position of the argument to be written over."""
    generator = seeded(1)
    for op in MARKED:
        for given in [{}, *VARIANTS.get(op, [])]:
            call = call_of(op, dtype, lambda kind: written(kind, generator), **given)
            for over in call.tensors():
                yield call.with_tensors(lambda i, value: value if i == over else
                                        beside(value.dtype, generator)), over


def captured_step(calls):
    """The calls in one step, each on a copy of the tensor that may be written over.

    Returns the capture, the values of its primals, and the ops' names by call.
    """
    joint = JointByHand(torch.zeros(1))
    given, results, names = [], [], []
    for call, over in calls:
        given += [call.args[position] for position in call.tensors()]
        nodes = {position: joint.primal(call.args[position]) for position in call.tensors()}
        nodes[over] = joint.call(aten.clone.default, nodes[over])
        args, kwargs = call.parts([nodes.get(i, value) for i, value in enumerate(call.args)])
        result = joint.call(call.target, *args, **kwargs)
        several = isinstance(result, list)
        names.append(result[0].args[0].name if several else result.name)
        results.append(joint.call(aten.clone.default, result[0] if several else result))
    captured = from_joint(joint.returning(results, []), len(results), name="step", updated=[],
                          primal_roles=["input"] * len(given),
                          primal_names=[f"primal {i}" for i in range(len(given))])
    return captured, given, names


def executed(calls):
    """By call the result and whether it was written over the argument."""
    with eager_kernels():
        captured, given, names = captured_step(calls)
    graph = _runtime.profiled(captured.graph, device=captured.device)
    plan = lowtide.plan(graph, "1TiB", "keep-all").plan
    over_inputs = {graph.ops[action[1]].name for action in plan.actions if len(action) > 2}
    executor = _runtime.Executor(graph, plan, captured.device)
    position = {resident: i for i, resident in enumerate(captured.primals)}
    residents = [index for index, tensor in enumerate(graph.tensors)
                 if tensor.kind == "resident" and tensor.alias_of is None]
    found, _ = executor.forward([given[position[index]] for index in residents],
                                [output.tensor for output in captured.forward_outputs])
    return list(zip(found, (name in over_inputs for name in names), strict=True))


def same_bits(ours, theirs):
    def raw(tensor):
        return tensor.contiguous().view(-1).view(torch.uint8)

    return ours.dtype == theirs.dtype and ours.shape == theirs.shape and torch.equal(
        raw(ours), raw(theirs))


def written_over(candidates):
    """Compares bits; returns the ops that were written over an input."""
    known = [(call, over) for call, over in candidates if call.run() is not None]
    torch.manual_seed(3)
    expected = [call.run() for call, _ in known]
    torch.manual_seed(3)
    used = set()
    for (call, over), theirs, (ours, is_over) in zip(known, expected, executed(known)):
        assert same_bits(ours, theirs), (call.target, over, is_over)
        used |= {call.target} if is_over else set()
    return used


def test_every_marked_op_gives_the_same_bits_over_each_input():
    used = [written_over(calls(dtype, contiguous, contiguous)) for dtype in DTYPES]
    assert set().union(*used) == set(MARKED)


@pytest.mark.parametrize("written, beside", LAYOUTS, ids=lambda layout: layout.__name__)
def test_layouts(written, beside):
    assert written_over(calls(torch.float32, written, beside))


@pytest.mark.parametrize("dtype", NARROWER, ids=str)
def test_arguments_of_narrower_dtypes(dtype):
    assert aten.mul.Tensor in written_over(calls(dtype, contiguous, narrower))


#: They read elements, or whole inputs, once more after they have written some.
SEVERAL_PASSES = [
    aten.masked_fill.Scalar, aten.masked_fill.Tensor, aten.cumsum.default, aten.cumprod.default,
    aten.sort.default, aten.flip.default, aten.roll.default, aten.native_layer_norm.default,
    aten.native_layer_norm_backward.default, aten.native_group_norm.default,
    aten.native_batch_norm.default, aten.scatter.src, aten.gather.default, aten.mm.default,
    aten.tril.default,
    aten.reflection_pad1d.default, aten.avg_pool2d.default, aten.bernoulli.p,
]


@pytest.mark.parametrize("op", SEVERAL_PASSES, ids=str)
def test_ops_of_several_passes_are_not_marked(op):
    assert op not in MARKED


def products(dtype, generator):
    """Calls that add a product to their first argument."""
    for rows, inner, columns in [(5, 8, 37), (64, 256, 96), (1, 16, 1), (33, 1, 2)]:
        for numbers in [{}, dict(beta=0.5), dict(beta=0), dict(alpha=2)]:
            b = drawn((columns, inner), dtype, generator).t()
            yield call_of(aten.addmm.default, dtype, None, mat2=b, **numbers,
                          self=drawn((rows, columns), dtype, generator),
                          mat1=drawn((rows, inner), dtype, generator))
            yield call_of(aten.baddbmm.default, dtype, None, **numbers,
                          self=drawn((3, rows, columns), dtype, generator),
                          batch1=drawn((3, rows, inner), dtype, generator),
                          batch2=b.expand(3, inner, columns))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_products_are_added_to_their_first_argument_in_place(dtype):
    used = written_over([(call, 0) for call in products(dtype, seeded(1))])
    assert used == {aten.addmm.default, aten.baddbmm.default}


def lines(dtype, generator):
    """Calls that reduce lines, with the argument that may be written over."""
    softmaxes = [(aten._softmax, aten._softmax_backward_data),
                 (aten._log_softmax, aten._log_softmax_backward_data)]
    for shape in [(3, 5), (7, 1031), (2, 19, 33, 3), (5, 300, 3)]:
        for dim in range(len(shape)):
            for forward, backward in softmaxes:
                x, gradient = (drawn(shape, dtype, generator) for _ in range(2))
                yield call_of(forward.default, dtype, None, self=x, dim=dim, half_to_float=False), 0
                given = dict(grad_output=gradient, output=forward.default(x, dim, False), dim=dim,
                             input_dtype=dtype)
                yield call_of(backward.default, dtype, None, **given), 0
                yield call_of(backward.default, dtype, None, **given), 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16],
                         ids=str)
def test_lines_are_written_over_what_they_are_computed_of(dtype):
    used = written_over(lines(dtype, seeded(1)))
    assert used == {aten._softmax.default, aten._log_softmax.default,
                    aten._softmax_backward_data.default, aten._log_softmax_backward_data.default}


def added_rows(dtype, generator):
    for rows, columns in [(5, 37), (1, 1), (64, 256)]:
        for count in (0, 1, 9):
            yield call_of(aten.index_add.default, dtype, None, dim=0,
                          self=drawn((rows, columns), dtype, generator),
                          index=torch.randint(rows, (count,), generator=generator),
                          source=drawn((count, columns), dtype, generator))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_rows_are_added_to_a_table_in_place(dtype):
    assert written_over([(call, 0) for call in added_rows(dtype, seeded(1))])


def test_a_product_is_not_written_over_a_factor():
    joint = JointByHand(torch.zeros(1))
    x = joint.call(aten.clone.default, joint.primal(torch.rand(4, 4)))
    result = joint.call(aten.addmm.default, x, x, x)
    captured = from_joint(joint.returning([joint.call(aten.clone.default, result)], []), 1,
                          name="step", updated=[], primal_roles=["input"], primal_names=["x"])
    assert not any(op.inplace for op in captured.graph.ops)


def test_a_mark_too_many_would_be_found(monkeypatch):
    """masked_fill copies its input before it reads the mask."""
    monkeypatch.setattr(in_place, "_ONE_PASS", frozenset({"aten::masked_fill.Scalar"}))
    values = torch.tensor([True, False, True, False])
    mask = torch.tensor([False, True, True, False])
    call = call_of(aten.masked_fill.Scalar, torch.bool, None, self=values, mask=mask, value=False)
    (ours, is_over), = executed([(call, 1)])
    assert is_over and not torch.equal(ours, call.run())


def test_pointwise_ops_may_overwrite_values_that_lie_alike():
    captured, document = capture_case("convolution and batch norm")
    tensors = document["tensors"]
    pairs = [(op, pair) for op in document["ops"] for pair in op.get("inplace", [])]
    assert {op["type"] for op, _ in pairs} >= {"aten::relu", "aten::threshold_backward"}
    for op, (output, position) in pairs:
        result, input = tensors[op["outputs"][output]], tensors[op["inputs"][position]]
        owner = tensors[input.get("alias_of", op["inputs"][position])]
        assert owner["kind"] == "value" and owner["bytes"] == result["bytes"] > 0
        assert [input.get(key) for key in ("dtype", "shape", "strides")] == [
            result.get(key) for key in ("dtype", "shape", "strides")]
