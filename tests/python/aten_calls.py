"""Calls of ATen ops with arguments drawn by their schemas."""

import dataclasses

import torch

#: Tensors of these names hold yes or no, whatever dtype the others have.
_MASKS = ("mask", "condition")
_FLOAT, _INTEGER = 0.5, 2  # what stands for a number where the schema gives none


@dataclasses.dataclass(frozen=True)
class Call:
    target: torch._ops.OpOverload
    args: tuple  # one for each argument of the schema

    def tensors(self):
        """Positions among `args`."""
        return [i for i, value in enumerate(self.args) if isinstance(value, torch.Tensor)]

    def with_tensors(self, replace):
        """The same with `replace(position, tensor)` for each tensor."""
        return Call(self.target, tuple(
            replace(i, value) if isinstance(value, torch.Tensor) else value
            for i, value in enumerate(self.args)))

    def parts(self, args=None):
        """Positional and keyword arguments; `args` instead of its own."""
        named = list(zip(self.target._schema.arguments, self.args if args is None else args))
        return ([value for argument, value in named if not argument.kwarg_only],
                {argument.name: value for argument, value in named if argument.kwarg_only})

    def run(self):
        """Its first result; None where the op does not take such arguments."""
        args, kwargs = self.parts()
        try:
            results = self.target(*args, **kwargs)
        except (RuntimeError, ZeroDivisionError):
            return None
        return results if isinstance(results, torch.Tensor) else results[0]


def aten_ops():
    """Every ATen op that leaves its arguments as they are."""
    names = [name.removeprefix("aten::").partition(".")
             for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    packets = [(getattr(torch.ops.aten, name, None), overload)
               for name, _, overload in sorted(names)]
    ops = [getattr(packet, overload or "default", None) for packet, overload in packets if packet]
    return [op for op in ops if op is not None and not op._schema.is_mutable]


def drawn(shape, dtype, generator):
    """Reals around zero, small integers other than zero, yes or no."""
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=generator) * 1.6 - 0.6).to(dtype)
    return torch.randint(1, 5, shape, generator=generator).to(dtype)


def call_of(target, dtype, draw, **given):
    """A call with `draw(dtype)` for each tensor; `given`: values of arguments by their names."""
    return Call(target, tuple(
        given[argument.name] if argument.name in given else _value(argument, dtype, draw)
        for argument in target._schema.arguments))


def _value(argument, dtype, draw):
    kind = str(argument.real_type)
    if "Tensor" in kind:
        return draw(torch.bool if argument.name in _MASKS else dtype)
    if argument.has_default_value():
        return argument.default_value
    if kind == "number":
        return _FLOAT if dtype.is_floating_point else dtype is torch.bool or _INTEGER
    kind = kind.removeprefix("Optional[").removesuffix("]")
    return {"float": _FLOAT, "int": _INTEGER, "bool": True}.get(kind)
