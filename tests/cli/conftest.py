"""Drives build/lowtide (or $LOWTIDE) as a user does."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("LOWTIDE", str(ROOT / "build" / "lowtide"))
TINY = ["--model", "mlp", "--batch", "256", "--image", "8", "--layers", "4", "--width", "32",
        "--dropout", "0.1", "--threads", "1"]


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)

    def fails(self, code, *words):
        """One clear line, the exit code, and no trace of C++."""
        assert self.code == code, (self.code, self.err)
        lines = [line for line in self.err.splitlines() if line.startswith("lowtide: ")]
        assert len(lines) == 1, self.err
        for word in words:
            assert word in lines[0]
        for trace in ("::", "terminate", "what()", "std", "c10", "Exception", ".cc", "0x"):
            assert trace not in lines[0].replace("aten::", ""), lines[0]
        return self


class Lowtide:
    """The command in a folder of its own, with a cache that all tests share."""

    def __init__(self, folder, cache):
        self.folder, self.cache = folder, cache

    @property
    def environment(self):
        return {**os.environ, "XDG_CACHE_HOME": str(self.cache)}

    def __call__(self, *arguments, **options):
        done = subprocess.run([BINARY, *map(str, arguments)], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=300, **options)
        return Result(done.returncode, done.stdout, done.stderr)

    def interrupted(self, *arguments, when, times=1):
        """Runs until a line of standard error has `when` in it, then sends SIGINT `times` times."""
        process = subprocess.Popen([BINARY, *map(str, arguments)], cwd=self.folder, text=True,
                                   env=self.environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        err = ""
        for line in process.stderr:
            err += line
            if when in line:
                break
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        out, rest = process.communicate(timeout=300)
        return Result(process.returncode, out, err + rest)


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def lowtide(tmp_path, cache):
    return Lowtide(tmp_path, cache)


@pytest.fixture(scope="session")
def graph(tmp_path_factory, cache):
    """A measured graph of a tiny MLP."""
    folder = tmp_path_factory.mktemp("graph")
    run = Lowtide(folder, cache)
    assert run("graph", *TINY[:-2], "-o", "g.json").code == 0
    done = run("profile", "g.json", "-o", "g.json", "--threads", "1")
    assert done.code == 0, done.err
    return folder / "g.json"
