"""What pyproject.toml declares holds; the wheel itself is built where LOWTIDE_WHEEL_TEST is set."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import venv
import zipfile

import lowtide
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(*lines):
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def lines_of(requirements):
    return (ROOT / "scripts" / requirements).read_text().splitlines()


LOCKS = ["requirements", "requirements-coverage", "requirements-cuda", "requirements-integrations",
         "requirements-lint", "requirements-site"]


@pytest.mark.parametrize("name", LOCKS)
def test_what_is_installed_has_the_pinned_versions_and_hashes(name):
    """As scripts/lock.sh writes them."""
    locked = [Requirement(line.rstrip(" \\")) for line in lines_of(f"{name}.txt")
              if "==" in line and not line.startswith("#")]
    pinned = [Requirement(line) for line in lines_of(f"{name}.in") if not line.startswith("#")]
    assert ({(canonicalize_name(one.name), str(one.specifier), one.marker is None)
             for one in locked}
            == {(canonicalize_name(one.name), str(one.specifier), one.marker is None)
                for one in pinned})
    requirements = "\n".join(lines_of(f"{name}.txt")).replace("\\\n", "").splitlines()
    assert all("--hash=sha256:" in line for line in requirements if not line.startswith("#"))


def test_only_torch_is_installed_without_a_hash():
    every = {path.stem for path in (ROOT / "scripts").glob("requirements*")}
    assert every == {*LOCKS, "requirements-torch"}
    assert pins(*lines_of("requirements-torch.txt")).keys() == {"torch"}


def test_the_wheel_is_built_with_what_the_tests_use():
    tested = pins(*lines_of("requirements.in"), *lines_of("requirements-torch.txt"))
    built_with = pins(*PROJECT["build-system"]["requires"])
    shared = built_with.keys() & tested.keys()
    assert shared == {"pybind11", "highsbox", "torch"}
    assert all(built_with[name] == tested[name] for name in shared)


def test_the_version_is_that_of_cmake():
    source = PROJECT["tool"]["scikit-build"]["metadata"]["version"]
    assert re.search(source["regex"], (ROOT / source["input"]).read_text())["value"]


def test_torch_finds_the_backend(tmp_path):
    """As from an installation: by the entry point alone, in a process that never imported it."""
    subprocess.run([sys.executable, ROOT / "scripts" / "entry_points.py", tmp_path], check=True)
    program = ("import torch._dynamo as dynamo; "
               "from torch._dynamo.backends.registry import lookup_backend; "
               "assert 'lowtide' in dynamo.list_backends(); "
               "print(lookup_backend('lowtide').__name__)")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "python")])
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": path})
    assert run.stdout.strip() == "lowtide_backend", run.stderr


@pytest.fixture
def run_with_another_torch(tmp_path):
    """Runs Python where torch is another version, which must not be imported."""
    torch = tmp_path / "torch"
    torch.mkdir()
    (torch / "__init__.py").write_text("raise SystemExit('torch was imported')")
    (torch / "version.py").write_text("__version__ = '99.1.0+cu190'")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "python")])
    return lambda *arguments: subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path})


@pytest.mark.parametrize("arguments", [
    ("-c", "import lowtide\nlowtide.wrap"),
    ("-c", "import lowtide\nlowtide.compile_within"),
    ("-c", "import lowtide.pytorch.backend"),
    ("-m", "lowtide", "capture", "any:any", "-o", "any.json"),
    ("-c", "import sys, lowtide.command; sys.exit(lowtide.command.main())"),
])
def test_another_torch_is_refused_in_one_line(run_with_another_torch, arguments):
    run = run_with_another_torch(*arguments)
    assert run.returncode != 0
    last = run.stderr.strip().splitlines()[-1]
    for word in ("for torch " + lowtide._core.torch_version, "torch 99.1.0+cu190 is installed",
                 "pip install torch==" + lowtide._core.torch_version):
        assert word in last, run.stderr


def test_planning_does_without_the_right_torch(run_with_another_torch):
    run = run_with_another_torch(
        "-c", "import lowtide; graph = lowtide.Graph.load('data/graphs/chain-20s0.json')\n"
              "print(lowtide.plan(graph, '60%', time_limit=0.3).outcome)")
    assert run.returncode == 0 and run.stdout.strip() in ("optimal", "feasible"), run.stderr


@pytest.mark.skipif("LOWTIDE_WHEEL_TEST" not in os.environ,
                    reason="builds everything again: set LOWTIDE_WHEEL_TEST")
def test_the_wheel_has_both_parts_and_their_types(tmp_path):
    """Wants the packages of build-system.requires in this Python."""
    subprocess.run([sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps",
                    "--no-build-isolation", "-w", tmp_path], check=True)
    wheel, = tmp_path.glob("lowtide-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for part in ("_core", "_runtime", "_fake_cuda"):
        assert any(re.fullmatch(rf"lowtide/{part}\..*so", name) for name in names)
    for name in ("py.typed", "_core.pyi", "bin/lowtide", "command.py", "pytorch/backend.py",
                 "page/page.html", "page/page.css", "page/page.js", "live_page/live.html"):
        assert f"lowtide/{name}" in names
    assert not any(name.startswith(("tests/", "bench/")) for name in names)
    assert_the_command_plans(wheel, tmp_path)


def assert_the_command_plans(wheel, folder):
    """From an environment of its own that sees the packages of this one."""
    venv.create(folder / "env", system_site_packages=False, with_pip=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--no-deps", wheel], check=True)
    site, = (folder / "env" / "lib").glob("python*/site-packages")
    for package in ("torch", "highsbox"):
        found = pathlib.Path(importlib.util.find_spec(package).origin).parent
        (site / package).symlink_to(found)
    graph = ROOT / "data" / "graphs" / "chain-20s0.json"
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run([python.with_name("lowtide"), "plan", graph, "--budget", "60%",
                          "--time-limit", "1"], capture_output=True, text=True, env=own)
    assert run.returncode == 0 and "overhead" in run.stdout, run.stderr
