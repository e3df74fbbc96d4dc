"""What tests need that train a model of the zoo by its graph and, beside it, in PyTorch."""

import inspect
import pathlib
import subprocess

import torch
import torch_models

LOWTIDE = pathlib.Path(__file__).resolve().parents[2] / "build" / "lowtide"


def write_graph(path, name, optimizer, sizes, **others):
    options = [word for option, value in {**sizes, **others}.items()
               for word in (f"--{option.replace('_', '-')}", str(value))]
    command = [LOWTIDE, "graph", "--model", name, "--optimizer", optimizer, *options, "-o", path]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def build_module(name, sizes):
    """The PyTorch model; it reads the other sizes off its input."""
    known = inspect.signature(torch_models.MODELS[name]).parameters
    torch.manual_seed(0)
    return torch_models.build(name, **{k: v for k, v in sizes.items() if k in known})


def state_of(module):
    """Parameters and buffers by name, less the counter that no computation reads."""
    return {name: value for name, value in module.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def draw_batch(interpreter, classes):
    """Fills the graph's inputs: images are normal, tokens and labels uniform."""
    inputs = interpreter.named("input", "target")
    for value in inputs.values():
        value.normal_() if value.is_floating_point() else value.random_(classes)
    return inputs["input"], inputs["target"]


def is_equal(ours, theirs):
    """In every bit, and where a gradient overflowed not a number in both."""
    same_shape = ours.shape == theirs.shape
    return same_shape and torch.allclose(ours, theirs, rtol=0, atol=0, equal_nan=True)


def assert_equal(ours, theirs, what):
    assert ours.keys() == theirs.keys()
    different = [f"{name}: largest difference {(ours[name] - theirs[name]).abs().max():.3g}"
                 f" of {theirs[name].abs().max():.3g}"
                 for name in theirs if not is_equal(ours[name], theirs[name])]
    assert not different, f"{what}: {len(different)} of {len(theirs)} differ:\n" + "\n".join(
        different[:10])
