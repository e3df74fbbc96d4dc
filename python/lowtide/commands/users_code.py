"""The user's functions, which make a model and its inputs."""

from __future__ import annotations

import importlib
import logging
import os
import pathlib
import sys
import traceback

import lowtide

from .. import fake_cuda

_OWN_FOLDER = str(pathlib.Path(lowtide.__file__).parent)


def torch_part(name):
    """A module that imports torch; what torch would log of an error is said by the error."""
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise lowtide.InputError("This needs PyTorch: pip install torch.") from None


def named_function(source):
    """The user's function."""
    module_name, colon, function_name = source.partition(":")
    if not (module_name and colon and function_name):
        raise lowtide.InputError(f"{source!r} does not name a function: write MODULE:FUNCTION, "
                                 f"such as my_module:make.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = guarded(lambda: importlib.import_module(module_name), f"Importing {module_name}")
    function = getattr(module, function_name, None)
    if not callable(function):
        raise lowtide.InputError(f"{module_name} has no function {function_name}.")
    return function


def made_by(source):
    """What the user's function returns: a model and its inputs."""
    function = named_function(source)
    made = guarded(function, f"{source}()")
    if not (isinstance(made, tuple) and len(made) == 2):
        raise lowtide.InputError(f"{source}() returns a {type(made).__name__}; it must return "
                                 f"(model, example inputs).")
    return made


def guarded(work, what):
    """The result of the user's code; what it raises as an InputError with the line. Errors of
    Lowtide's own code are raised as they are."""
    try:
        return work()
    except lowtide.Error:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        of_cuda = fake_cuda.explained(error)
        if of_cuda is None and frames[-1].filename.startswith(_OWN_FOLDER) and len(frames) > 1:
            raise
        frame = _users_frame(frames)
        why = of_cuda or f"{type(error).__name__}: {error}"
        raise lowtide.InputError(f"{what} fails with {why} "
                                 f"({frame.filename}:{frame.lineno})") from None


def _users_frame(frames):
    """The last that is neither PyTorch's nor Lowtide's."""
    packages = [_OWN_FOLDER]
    torch = sys.modules.get("torch")
    if torch is not None:
        packages.append(str(pathlib.Path(torch.__file__).parent))
    own = [frame for frame in frames if not frame.filename.startswith(tuple(packages))]
    return (own or frames)[-1]
