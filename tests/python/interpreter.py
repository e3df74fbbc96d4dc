"""Runs a graph file op by op through torch.ops.aten: a second, independent reading of the format.

Nothing is planned: each op runs once, in the listed order.
"""

import json

import torch

DTYPES = {"c128": torch.complex128, "c64": torch.complex64, "f64": torch.float64,
          "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
          "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
          "u64": torch.uint64, "u8": torch.uint8, "bool": torch.bool}


MEMORY_FORMATS = [torch.contiguous_format, torch.preserve_format, torch.channels_last,
                  torch.channels_last_3d]


def argument(value, inputs, kind):
    """A value of an op's `args`, as PyTorch takes it for an argument of the type `kind`."""
    if "MemoryFormat" in kind and value is not None:
        return MEMORY_FORMATS[value]
    if not isinstance(value, dict):
        return value
    (tag, content), = value.items()
    if tag == "tensor":
        return inputs[content]
    if tag == "tensors":
        return [None if position is None else inputs[position] for position in content]
    if tag == "float":
        return float(content)
    if tag == "complex":
        return complex(*map(float, content))
    if tag == "floats":
        return [float(number) for number in content]
    if tag == "dtype":
        return DTYPES[content]
    raise ValueError(f"an argument with the unknown tag {tag!r}")


def call(op, inputs):
    """The results of an op that its `outputs` name."""
    namespace, name = op["type"].split("::")
    name, _, overload = name.partition(".")
    function = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    schema = function._schema.arguments
    arguments = [argument(value, inputs, str(expected.real_type))
                 for value, expected in zip(op["args"], schema)]
    positional = [a for a, s in zip(arguments, schema) if not s.kwarg_only]
    keywords = {s.name: a for a, s in zip(arguments, schema) if s.kwarg_only}
    results = function(*positional, **keywords)
    if not op["outputs"]:
        return []  # an op that only writes its inputs; some return aliases of them
    results = [results] if isinstance(results, torch.Tensor) else results
    mask = [argument for argument, expected in zip(arguments, schema)
            if expected.name == "output_mask"]
    # Some ops make what their mask does not ask for, some leave it out.
    wanted = mask[0] if mask else [True] * len(results)
    return [result for result, is_wanted in zip(results, wanted, strict=True)
            if is_wanted and result is not None]


def first_value(tensor):
    """What a resident tensor holds at first, for the initializers that draw nothing. The batch has
    none and starts as zeros."""
    kind, *numbers = tensor.get("init", ["zeros"])
    shape, dtype = tensor["shape"], DTYPES[tensor["dtype"]]
    if kind == "zeros":
        return torch.zeros(shape, dtype=dtype)
    if kind == "constant":
        return torch.full(shape, numbers[0], dtype=dtype)
    if kind == "arange":
        return torch.arange(shape[0], dtype=dtype)
    if kind == "causal":
        return torch.ones(shape, dtype=dtype).tril()
    raise ValueError(f"{tensor['name']} needs a value: its initializer {kind!r} draws one")


class Interpreter:
    """`residents` maps names to first values; the rest come from the graph's initializers."""

    def __init__(self, path, residents):
        with open(path) as file:
            self.graph = json.load(file)
        self.tensors = self.graph["tensors"]
        self.values = {}  # by index
        for index, tensor in enumerate(self.tensors):
            if tensor["kind"] != "resident":
                continue
            given = residents.get(tensor["name"])
            self.values[index] = first_value(tensor) if given is None else given.detach().clone()

    def named(self, *roles):
        """The tensors of these roles that have values now, by name."""
        return {self.tensors[index]["name"]: value for index, value in self.values.items()
                if self.tensors[index].get("role") in roles}

    def gradients(self):
        """By the name of the parameter."""
        return {self.tensors[self.tensors[index]["gradient_of"]]["name"]: value
                for index, value in self.values.items()
                if self.tensors[index].get("role") == "gradient"}

    def value(self, name):
        return next(v for i, v in self.values.items() if self.tensors[i]["name"] == name)

    @torch.no_grad()
    def step(self):
        for op in self.graph["ops"]:
            self._run(op)

    def _run(self, op):
        inputs = [self.values[index] for index in op["inputs"]]
        for index, result in zip(op["outputs"], call(op, inputs), strict=True):
            expected = self.tensors[index]
            assert list(result.shape) == expected["shape"], (op["name"], result.shape)
            assert result.dtype == DTYPES[expected["dtype"]], (op["name"], result.dtype)
            self.values[index] = result
