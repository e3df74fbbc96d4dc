"""The code of the page runs as it stands there."""

import pathlib
import re

import lowtide
import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/how-to/when-memory-is-short.md"

pytestmark = [pytest.mark.usefixtures("own_cache", "one_thread"),
              pytest.mark.cpu_only("the budget is for what its kernels take")]


def test_the_code_of_the_page_runs(capsys):
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    memory = lowtide.memory(names["model"])
    assert 0 < memory.measured_peak <= memory.budget
    assert "budget 8.00 MiB" in capsys.readouterr().out
    assert all(parameter.grad is None for parameter in names["model"].parameters())
