"""What ``python -m lowtide doctor`` says, where all is well and where something is wrong."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import lowtide
import pytest
import torch
from lowtide.doctor import Finding, report_text, to_json
from lowtide.doctor.checks import of_machine
from lowtide.pytorch.machine import machine, why_no_cache

PACKAGE = pathlib.Path(lowtide.__file__).parent
VERSION = lowtide._core.torch_version


def doctor(*arguments, packages=(), **environment):
    """``packages``: folders in which packages are looked for first."""
    path = os.pathsep.join(map(str, [*packages, PACKAGE.parent]))
    return subprocess.run([sys.executable, "-m", "lowtide", "doctor", *arguments],
                          capture_output=True, text=True, timeout=500,
                          env={**os.environ, "PYTHONPATH": path, **environment})


def found_by(*, code, **surroundings):
    """By name, the findings."""
    done = doctor("--json", **surroundings)
    assert done.returncode == code, done.stderr
    document = json.loads(done.stdout)
    assert document["ok"] == (code == 0)
    found = {check["name"]: check for check in document["checks"]}
    faults = [name for name, check in found.items() if check["status"] == "fault"]
    assert bool(faults) == (code == 1)
    assert all(name in done.stderr for name in faults)
    return found


def package_without(tmp_path, *parts):
    """A folder with the package, of which some parts are left out."""
    folder = tmp_path / "lowtide"
    folder.mkdir()
    for entry in PACKAGE.iterdir():
        if not entry.name.startswith(parts):
            (folder / entry.name).symlink_to(entry)
    return tmp_path


def test_all_that_a_training_needs_is_there(tmp_path):
    found = found_by(code=0, XDG_CACHE_HOME=str(tmp_path / "cache"))
    for name in ("Python", "planner", "torch", "executor", "processor", "memory", "control group",
                 "cache"):
        assert found[name]["status"] == "ok", found[name]
    assert found["torch"]["text"] == f"{torch.__version__}; built for {VERSION}"
    assert found["cache"]["text"] == str(tmp_path / "cache" / "lowtide")
    assert not (tmp_path / "cache").exists()  # it changes nothing
    assert sys.version.split()[0] in found["Python"]["text"]


def test_a_person_reads_a_line_for_each():
    done = doctor()
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == ""
    assert all(line.split()[0] in ("ok", "warning", "absent") or line.startswith("   ")
               for line in lines)


def test_another_torch_is_a_fault(tmp_path):
    other = tmp_path / "torch"
    other.mkdir()
    (other / "__init__.py").write_text("raise SystemExit('torch was imported')")
    (other / "version.py").write_text("__version__ = '99.1.0+cu190'")
    found = found_by(code=1, packages=[tmp_path])
    assert found["torch"]["status"] == "fault"
    assert "99.1.0+cu190 is installed" in found["torch"]["text"]
    assert f"pip install torch=={VERSION}" in found["torch"]["advice"]
    assert "executor" not in found and found["planner"]["status"] == "ok"


def write_torch(folder, code):
    """A torch of the right version, which runs this where it is imported."""
    other = folder / "torch"
    other.mkdir()
    (other / "__init__.py").write_text(code)
    (other / "version.py").write_text(f"__version__ = '{VERSION}'")


def test_a_torch_that_does_not_load_is_a_fault(tmp_path):
    write_torch(tmp_path, "raise ImportError('libgomp.so.1: cannot open')")
    found = found_by(code=1, packages=[tmp_path])
    assert "libgomp.so.1: cannot open" in found["executor"]["text"]


def test_a_torch_that_ends_the_process_is_a_fault(tmp_path):
    write_torch(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    found = found_by(code=1, packages=[tmp_path])
    assert found["executor"]["text"] == "loading it ended the process by signal 9"


def test_no_torch_is_a_fault(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: (\n"
        "    None if name == 'torch' else find(name, *more))\n")
    found = found_by(code=1, packages=[tmp_path])
    assert found["torch"]["text"].startswith("is not installed")
    assert found["torch"]["advice"] == f"pip install torch=={VERSION}"


def test_a_missing_executor_is_a_fault(tmp_path):
    found = found_by(code=1, packages=[package_without(tmp_path, "_runtime")])
    assert "_runtime is not in" in found["executor"]["text"]
    assert "build Lowtide again" in found["executor"]["advice"]
    assert found["torch"]["status"] == "ok"


def test_an_executor_that_does_not_load_is_a_fault(tmp_path):
    package = package_without(tmp_path, "_runtime")
    name = next(PACKAGE.glob("_runtime.*.so")).name
    (tmp_path / "lowtide" / name).write_text("no library")
    found = found_by(code=1, packages=[package])
    assert "ImportError" in found["executor"]["text"] and name in found["executor"]["text"]


def test_a_missing_planner_is_said_by_the_import(tmp_path):
    done = doctor(packages=[package_without(tmp_path, "_core")])
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "the compiled part of Lowtide does not load" in last
    assert "docs/how-to/install.md" in last


def test_a_home_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    places = [tmp_path / "file", "/proc"] + ([home] if os.geteuid() else [])
    for place in places:
        environment = {"HOME": str(place), "XDG_CACHE_HOME": ""}
        found = found_by(code=0, **environment)
        assert found["cache"]["status"] == "warning", place
        assert f"nothing can be written in {place}: " in found["cache"]["text"]
        assert "XDG_CACHE_HOME" in found["cache"]["advice"]


def test_a_cache_of_others_is_a_warning(tmp_path):
    (tmp_path / "lowtide").mkdir()
    (tmp_path / "lowtide").chmod(0o777)
    assert "another user may write in" in why_no_cache(tmp_path / "lowtide")
    (tmp_path / "lowtide").chmod(0o700)
    assert why_no_cache(tmp_path / "lowtide") == ""
    assert list((tmp_path / "lowtide").iterdir()) == []


def test_optional_programs_may_be_absent(tmp_path):
    found = found_by(code=0, PATH=str(tmp_path))
    for name in ("Graphviz", "Chromium"):
        assert found[name]["status"] == "absent" and "apt-get install" in found[name]["text"]
    assert found["command"]["status"] in ("absent", "ok")  # a wheel has it beside the package


def test_a_command_that_does_not_run_is_a_warning(tmp_path):
    if (PACKAGE / "bin").exists():
        pytest.skip("the package has a command of its own")
    program = tmp_path / "lowtide"
    program.write_text("#!/bin/sh\necho 'libtorch.so: not found' >&2\nexit 127\n")
    program.chmod(0o755)
    found = found_by(code=0, PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert found["command"]["status"] == "warning"
    assert "libtorch.so: not found" in found["command"]["text"]


@pytest.mark.skipif(shutil.which("lowtide") is None, reason="the command is not in the PATH")
def test_the_command_is_found():
    assert "lowtide 0." in found_by(code=0)["command"]["text"]


def test_memory_is_that_of_this_machine():
    memory = machine()["memory"]
    kilobytes = int(pathlib.Path("/proc/meminfo").read_text().split()[1])
    assert memory["machine"] == pytest.approx(1024 * kilobytes, rel=0.1)
    assert 0 < memory["free"] and memory["usable"] <= memory["machine"]


def test_a_limit_of_the_control_group_is_named():
    known = machine()
    known["memory"] = {"free": 1 << 29, "usable": 1 << 30, "machine": 1 << 34}
    known["devices"] = [{"device": "cuda:0", "name": "Some GPU", "bytes": 1 << 34}]
    found = {one.name: one.text for one in of_machine(known)}
    assert found["control group"] == "limits this process to 1.00 GiB"
    assert found["memory"] == "512 MiB free of 16.0 GiB"
    assert found["cuda:0"].startswith("Some GPU, 16.0 GiB")


def test_texts_of_findings():
    found = [Finding("torch", "ok", "2.0"), Finding("executor", "fault", "is gone", "bring it")]
    assert report_text(found).splitlines() == [
        "ok       torch     2.0", "fault    executor  is gone", " " * 19 + "bring it"]
    assert json.loads(to_json(found))["ok"] is False
