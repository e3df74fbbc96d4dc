"""Joint graphs as lowtide graphs: executed, they give PyTorch's bits."""

import copy
import functools
import json
import operator

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

import lowtide
import torch_models
from joint_capture import compile_step, interpret
from lowtide.pytorch.capture import BOUNDARY, eager_kernels, from_joint


pytestmark = pytest.mark.usefixtures("one_thread")


def images(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def tokens(*shape, classes=17):
    return torch.randint(classes, shape, generator=torch.Generator().manual_seed(1))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.conv(x))).mean((2, 3)))


class Twice(nn.Module):
    """One batch norm, used twice."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(self.conv(self.norm(self.conv(x))).relu())


class ReadsOldStatistics(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        old = self.norm.running_mean.clone()
        return self.norm(x * 2) + old


class OwnStatistics(nn.Module):
    """Statistics that are no buffers: nothing is there to be updated in place."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, x):
        mean, variance = x.mean(0).detach(), x.var(0).detach()
        y = F.batch_norm(x * self.scale, mean, variance, training=True)
        return y + mean


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(17, 6)
        self.head = nn.Linear(6, 17, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x):
        return self.head(self.table(x).tanh())


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 5).requires_grad_(False)
        self.second = nn.Linear(5, 5)
        self.register_buffer("scale", torch.linspace(0.5, 2, 5))

    def forward(self, x):
        return self.second(self.first(x).relu() * self.scale)


class Average(nn.Module):
    """Keeps a running mean by hand."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x):
        y = self.linear(x)
        with torch.no_grad():
            self.mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
        return (y - self.mean).sigmoid()


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        y = self.linear(x)
        y[:, 1:3] = 0
        y.view(-1, 2, 3)[:, 0].mul_(2)
        return F.relu_(y) * 2


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        y = self.linear(x)
        a, b, c = y.chunk(3, 1)
        return {"both": (a * b, torch.cat([b, c, b], 1)), "same": (y, y), "input": x.t(),
                "number": 3, "none": None, "whole": (y.argmax(1), c.var(0))}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(2, 5, 8) * torch.tensor(0.5)


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.second(F.gelu(self.first(x))).float()


class Pools(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        y = F.max_pool2d(self.conv(x.to(memory_format=torch.channels_last)), 2)
        return F.adaptive_avg_pool2d(F.pad(y, (1, 1)), 2)


class Resized(nn.Module):
    """Every way to interpolate, exactly as the kernels do it."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3)

    def forward(self, x):
        x = F.interpolate(self.conv(x), scale_factor=1.7, mode="bilinear")
        x = F.interpolate(x, size=(7, 5), mode="bicubic", align_corners=True)
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        x = F.interpolate(x.flatten(2), size=9, mode="linear")
        return F.interpolate(x.unsqueeze(-1), size=(4, 3), mode="bilinear", antialias=True)


class Random(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.leaky = nn.RReLU()

    def forward(self, x):
        y = self.leaky(self.linear(x))
        return y + torch.rand_like(y) * torch.bernoulli(y.detach().sigmoid())


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return 3 * x * gradient


class OwnGradient(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            shift = self.linear(x).amax(1, keepdim=True)
        return Square.apply(self.linear(x) - shift)


def needing_gradient(x):
    return x.requires_grad_()


CASES = {
    "convolution and batch norm": (ConvNet, (images(2, 3, 6, 6),)),
    "a batch norm used twice": (Twice, (images(2, 3, 4, 4),)),
    "old statistics read": (ReadsOldStatistics, (images(4, 5),)),
    "statistics that are no buffers": (OwnStatistics, (images(4, 5),)),
    "tied weights": (Tied, (tokens(2, 5),)),
    "frozen parameters": (Frozen, (images(3, 5),)),
    "a buffer updated by hand": (Average, (images(3, 5),)),
    "in-place ops": (InPlace, (images(3, 6),)),
    "several outputs": (Several, (images(3, 6),)),
    "an input that needs a gradient": (Frozen, (needing_gradient(images(3, 5)),)),
    "attention": (Attention, (images(2, 5, 8),)),
    "autocast": (Autocast, (images(2, 8),)),
    "pooling": (Pools, (images(2, 3, 10, 10),)),
    "interpolation": (Resized, (images(2, 2, 8, 8),)),
    "random numbers": (Random, (images(3, 6),)),
    "an own gradient": (OwnGradient, (images(3, 4),)),
    "gpt": (lambda: torch_models.build("gpt", layers=2, width=8, heads=2, sequence=6,
                                       vocabulary=17, dropout=0.2), (tokens(2, 6),)),
    "lstm": (lambda: torch_models.build("lstm", layers=2, width=5, vocabulary=17), (tokens(2, 4),)),
}


def build(name):
    make, inputs = CASES[name]
    torch.manual_seed(0)
    return make().train(), tuple(copy.deepcopy(i) for i in inputs)


def step(function, module, inputs):
    """Outputs, gradients and buffers of one training step, by name."""
    torch.manual_seed(7)
    outputs = torch.utils._pytree.tree_leaves(function(*inputs))
    # Squares, for gradients that fill memory: PyTorch gives a compiled step no expanded ones.
    losses = [output.float().square().sum() for output in outputs
              if isinstance(output, torch.Tensor) and output.requires_grad]
    sum(losses).backward()
    results = {f"output {i}": output for i, output in enumerate(outputs)}
    results |= {f"gradient of {name}": p.grad for name, p in module.named_parameters()}
    results |= {f"gradient of input {i}": x.grad for i, x in enumerate(inputs)}
    return results | dict(module.named_buffers())


def assert_same_bits(ours, theirs, what):
    assert type(ours) is type(theirs), what
    if isinstance(theirs, torch.Tensor):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs), (
            what, (ours.double() - theirs.double()).abs().max())
    else:
        assert ours == theirs, what


@functools.cache
def compiled_step(name):
    """The region of a case, which has one, and what its compiled step gave."""
    module, inputs = build(name)
    compiled, recorder = compile_step(module)
    results = step(compiled, module, inputs)
    region, = recorder.regions
    return region, results


@pytest.mark.parametrize("name", CASES)
def test_document_gives_the_bits_of_pytorch(name):
    region, results = compiled_step(name)
    module, inputs = build(name)
    for key, value in step(module, module, inputs).items():
        assert_same_bits(results[key], value, key)

    assert region.captured.graph.executable
    torch.manual_seed(7)
    outputs, gradients = interpret(region)
    for i, (ours, theirs) in enumerate(zip(outputs, region.results, strict=True)):
        assert_same_bits(ours, theirs, f"forward output {i}")
    for i, (ours, theirs) in enumerate(zip(gradients, region.gradients, strict=True)):
        assert_same_bits(ours, theirs, f"gradient {i}")


def capture_case(name):
    """The region of a case as captured, and the graph as a document."""
    captured = compiled_step(name)[0].captured
    return captured, json.loads(captured.graph.format())


def ops_of(document, type):
    return [(index, op) for index, op in enumerate(document["ops"]) if op["type"] == type]


def rule_against_another_run(graph, op, behind):
    """The rule that forbids to run `op` again right behind the op `behind`; None if none does."""
    keep_all = json.loads(lowtide.keep_all(graph).format())
    actions = [action for action in keep_all["actions"] if action[0] != "free"]
    at = next(i for i, action in enumerate(actions) if action[:2] == ["run", behind])
    lost = [["free", index] for index in graph.ops[op].outputs
            if graph.tensors[index].alias_of is None]
    actions[at + 1:at + 1] = [*lost, ["run", op]]
    plan = {"format": "lowtide-plan", "version": 1, "graph": graph.name, "actions": actions,
            "cost": 0, "peak_bytes": sum(tensor.bytes for tensor in graph.tensors)}
    violation = lowtide.verify(graph, lowtide.Plan.parse(json.dumps(plan)))
    return violation and violation.rule


def test_batch_norm_updates_its_statistics_in_place():
    captured, document = capture_case("convolution and batch norm")
    (index, norm), = ops_of(document, "aten::native_batch_norm")
    statistics = [norm["inputs"][position] for position in norm["mutates"]]
    assert len(norm["outputs"]) == 3
    assert {output.tensor for output in captured.forward_outputs} >= set(statistics)
    assert {captured.primals.index(statistic) for statistic in statistics} < {*captured.updated}
    assert not ops_of(document, "aten::_native_batch_norm_legit_functional")
    # Nothing forbids it to run again for the gradients.
    assert rule_against_another_run(captured.graph, index, captured.boundary) is None


def test_a_batch_norm_used_twice_updates_twice():
    captured, document = capture_case("a batch norm used twice")
    first, second = (op for _, op in ops_of(document, "aten::native_batch_norm"))
    assert [first["inputs"][i] for i in first["mutates"]] == [
        second["inputs"][i] for i in second["mutates"]]


def test_statistics_in_place_wait_for_those_who_read_the_old():
    captured, document = capture_case("old statistics read")
    (copied, _), = ops_of(document, "aten::clone")
    (norm, _), = ops_of(document, "aten::native_batch_norm")
    assert copied < norm
    assert rule_against_another_run(captured.graph, copied, norm) == "stale_input"


def test_what_the_caller_overwrites_is_not_read_behind_the_boundary():
    captured, document = capture_case("a buffer updated by hand")
    boundary = document["ops"][captured.boundary]
    (mean,) = (captured.primals[index] for index in captured.updated)
    assert [boundary["inputs"][position] for position in boundary["mutates"]] == [mean]
    reader = next(i for i, op in enumerate(document["ops"]) if mean in op["inputs"])
    assert rule_against_another_run(captured.graph, reader, captured.boundary) == "stale_input"


@pytest.mark.parametrize("name", CASES)
def test_boundary_parts_forward_and_backward(name):
    captured, document = capture_case(name)
    boundary = document["ops"][captured.boundary]
    assert boundary["type"] == BOUNDARY and captured.nodes[captured.boundary] is None
    assert boundary["outputs"] == list(captured.tangents)
    assert all(document["tensors"][index]["bytes"] == 0 for index in captured.tangents)
    handed = {output.tensor for output in captured.forward_outputs} - {None}
    assert handed <= set(boundary["inputs"])
    assert [op["phase"] for op in document["ops"]] == (
        ["forward"] * captured.boundary
        + ["backward"] * (len(document["ops"]) - captured.boundary))
    assert document["outputs"] == list(dict.fromkeys(
        result.tensor for result in (*captured.forward_outputs, *captured.gradients)
        if result.tensor is not None))


@pytest.mark.parametrize("name", CASES)
def test_results_of_the_forward_pass_are_made_once_in_the_callers_memory(name):
    captured, document = capture_case(name)
    tensors, ops = document["tensors"], document["ops"]
    made = {index: op for op in ops for index in op["outputs"]}
    for output in captured.forward_outputs:
        if output.tensor is None:
            continue
        storage = tensors[output.tensor].get("alias_of", output.tensor)
        if tensors[storage]["kind"] == "resident":
            continue
        assert tensors[storage]["bytes"] == 0
        assert made[storage]["recomputable"] is False
        assert all(op["inputs"][source] != storage for op in ops
                   for _, source in op.get("inplace", ()))


@pytest.mark.parametrize("name", CASES)
def test_nodes_are_those_of_the_ops(name):
    captured, document = capture_case(name)
    assert len(captured.nodes) == len(document["ops"])
    for node, op in zip(captured.nodes, document["ops"]):
        assert node is None or (node.name, node.op) == (op["name"], "call_function")
    assert len(set(captured.nodes)) == len(captured.nodes)


def test_eager_kernels_end_with_their_context():
    def traced():
        torch._dynamo.reset()
        targets = []

        def look(graph, inputs):
            targets.extend(str(node.target) for node in graph.graph.nodes)
            return make_boxed_func(graph.forward)

        backend = aot_autograd(fw_compiler=look)
        double = torch.compile(lambda x: F.interpolate(x, scale_factor=2), backend=backend)
        double(images(1, 1, 4, 4))
        return targets

    before = traced()
    with eager_kernels():
        inside = traced()
    assert "aten.upsample_nearest2d.default" in inside or "aten.upsample_nearest2d.vec" in inside
    assert traced() == before != inside


def test_primals_that_share_a_storage_count_once():
    base = torch.randn(12)
    parts = base[:6].requires_grad_(), base[6:]
    compiled, recorder = compile_step(lambda a, b: (a * b).sum())
    compiled(*parts).backward()
    captured = recorder.regions[0].captured
    assert captured.graph.resident_bytes == base.untyped_storage().nbytes()


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


def refusal(function, *inputs, dynamic=False):
    """What the capture says of a function that it cannot write."""
    torch._dynamo.reset()
    compiled, _ = compile_step(function)
    if dynamic:
        compiled = torch.compile(function, backend=compile_step(function)[1], dynamic=True)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        compiled(*inputs)
    assert isinstance(caught.value.inner_exception, lowtide.InputError)
    return str(caught.value.inner_exception)


def spectrum(x):
    return torch.fft.rfft(x).abs()


def eighths(x):
    return x.to(torch.float8_e4m3fn).to(torch.float32) + x


@torch.library.custom_op("lowtide_test::fill_with_ones", mutates_args=("x",))
def fill_with_ones(x: torch.Tensor) -> None:
    x.fill_(1)


def writes(x):
    y = x * 2
    fill_with_ones(y)
    return y + x


@pytest.mark.parametrize("function, said", [
    (spectrum, "torch.complex64"), (eighths, "torch.float8_e4m3fn"),
    (writes, "auto_functionalized"),
])
def test_what_a_graph_cannot_hold_is_refused_at_the_line(function, said):
    message = refusal(function, torch.randn(8, requires_grad=True))
    assert said in message
    assert "test_capture.py" in message and f"in {function.__name__}" in message


def test_symbolic_shapes_are_refused():
    message = refusal(lambda x: x.view(-1) * 2, torch.randn(3, 4, requires_grad=True),
                      dynamic=True)
    assert "dynamic=False" in message


def joint_graph(write):
    """A joint graph by hand: primals x and buffer, one tangent; `write` returns its results."""
    graph = torch.fx.Graph()
    names = ("primals_1", "primals_2", "tangents_1")
    inputs = [graph.placeholder(name) for name in names]
    for node in inputs:
        node.meta["val"] = torch.empty(4)

    def add(function, *arguments):
        node = graph.call_function(function, arguments)
        node.meta["val"] = torch.empty(4)
        return node

    graph.output(write(add, *inputs))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def norm_graph(read_behind, returns_mean=True):
    """A joint graph by hand: a batch norm of primals_1 that updates primals_2 and primals_3.

    `read_behind`: another op reads the mean behind it, "old" or "new".
    """
    graph = torch.fx.Graph()
    names = ("primals_1", "primals_2", "primals_3", "tangents_1")
    x, mean, variance, tangent = (graph.placeholder(name) for name in names)
    for node, shape in ((x, (4, 5)), (mean, 5), (variance, 5), (tangent, (4, 5))):
        node.meta["val"] = torch.empty(shape)

    def add(value, function, *arguments):
        node = graph.call_function(function, arguments)
        node.meta["val"] = value
        return node

    aten = torch.ops.aten
    results = [torch.empty(shape) for shape in ((4, 5), 5, 5, 5, 5)]
    norm = add(results, aten._native_batch_norm_legit_functional.default, x, None, None, mean,
               variance, True, 0.1, 1e-5)
    y, new_mean, new_variance = (add(results[i], operator.getitem, norm, i) for i in (0, 3, 4))
    read = {"old": mean, "new": new_mean}[read_behind]
    z = add(torch.empty(4, 5), aten.add.Tensor, y, read)
    returned = [new_mean if returns_mean else y, new_variance, z]
    gradient = add(torch.empty(4, 5), aten.mul.Tensor, tangent, 2)
    graph.output([*returned, gradient, None, None])
    return torch.fx.GraphModule(torch.nn.Module(), graph)


@pytest.mark.parametrize("how, updated, in_place", [
    (dict(read_behind="new"), [1, 2], True),
    (dict(read_behind="old"), [1, 2], False),
    (dict(read_behind="new"), [1], False),  # the variance is not the module's
    (dict(read_behind="new"), [], False),
    (dict(read_behind="new", returns_mean=False), [1, 2], False),
])
def test_statistics_are_only_updated_in_place_where_nobody_can_tell(how, updated, in_place):
    captured = from_joint(norm_graph(**how), 3, name="step", updated=updated,
                          primal_roles=["input", "buffer", "buffer"],
                          primal_names=["x", "mean", "variance"])
    norm = captured.graph.ops[0]
    assert norm.type.endswith("native_batch_norm") == in_place
    assert norm.mutates == ([1, 2] if in_place else [])
    assert len(norm.outputs) == (3 if in_place else 5)


def test_a_gradient_that_needs_an_overwritten_value_is_refused():
    def write(add, x, buffer, tangent):
        new = add(torch.ops.aten.add.Tensor, buffer, 1)
        y = add(torch.ops.aten.mul.Tensor, x, buffer)
        return [new, y, add(torch.ops.aten.mul.Tensor, tangent, buffer), None]

    with pytest.raises(lowtide.InputError, match="old value of buffer"):
        from_joint(joint_graph(write), 2, name="step", primal_roles=["input", "buffer"],
                   primal_names=["x", "buffer"], updated=[1])


def test_an_op_of_another_library_runs_once():
    @torch.library.custom_op("lowtide_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def write(add, x, buffer, tangent):
        y = add(torch.ops.lowtide_test.twice.default, x)
        return [y, add(torch.ops.aten.mul.Tensor, tangent, buffer), None]

    captured = from_joint(joint_graph(write), 1, name="step", primal_roles=["input", "buffer"],
                          primal_names=["x", "buffer"], updated=[])
    assert [op.recomputable for op in captured.graph.ops] == [False, False, True]
