"""What is shown depends on where it goes: a terminal, a narrow one, a pipe."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import pytest
from conftest import BINARY, TINY

BLOCKS = "▁▂▃▄▅▆▇█"
UTF8 = {"LC_ALL": "C.UTF-8", "TERM": "xterm"}


def on_terminal(lowtide, *arguments, columns=80, environment=UTF8):
    """Exit code, and standard output and error as a terminal of so many columns gets them."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([BINARY, *map(str, arguments)], cwd=lowtide.folder, stdin=theirs,
                               stdout=theirs, stderr=theirs,
                               env={**lowtide.environment, **environment})
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
    return process.wait(timeout=300), seen.decode().replace("\r\n", "\n")


def without_progress(text):
    """What stays on the screen when lines were overwritten."""
    return re.sub(r"\r\x1b\[K[^\n\r]*(?=\r\x1b\[K)|\r\x1b\[K", "", text)


QUICK = ("--time-limit", "1")


@pytest.fixture
def commands(lowtide, graph):
    """Some of each kind: with progress, tables of two and of more columns, sentences."""
    return [("plan", graph, "--budget", "80%", *QUICK),
            ("compare", graph, "--budgets", "80%", "--strategies", "search,chen-sqrt", *QUICK),
            ("frontier", graph, "--points", "2", *QUICK),
            ("train", *TINY, "--budget", "80%", "--steps", "2", *QUICK),
            ("estimate", graph), ("models",), ("strategies",), ("devices",), ("order", graph),
            ("layout", graph, "--compare", *QUICK)]


def test_lines_fit_a_narrow_terminal(lowtide, graph, commands):
    for columns, some in [(20, commands), (1, [("estimate", graph), ("models",)])]:
        for command in some:
            code, seen = on_terminal(lowtide, *command, columns=columns)
            assert code == 0, (command, seen)
            lines = without_progress(seen).splitlines()
            assert lines and all(len(line) <= max(columns, 8) for line in lines), (command, lines)


def test_progress_is_one_row_of_a_narrow_terminal(lowtide):
    _, seen = on_terminal(lowtide, "train", *TINY, "--steps", "3", *QUICK, columns=20)
    overwritten = re.findall(r"\r\x1b\[K([^\n\r]*)(?=\r)", seen)
    assert overwritten and all(len(line) < 20 for line in overwritten)


def test_no_number_is_lost_in_a_narrow_terminal(lowtide, graph):
    wide = lowtide("estimate", graph).out
    _, narrow = on_terminal(lowtide, "estimate", graph, columns=20)
    assert re.findall(r"\d[\d.]*", " ".join(narrow.split())) == re.findall(r"\d[\d.]*", wide)


def test_json_is_broken_nowhere(lowtide, graph):
    _, seen = on_terminal(lowtide, "order", graph, "--json", columns=20)
    assert seen == lowtide("order", graph, "--json").out


@pytest.mark.parametrize("environment, shows_blocks", [
    (UTF8, True), ({**UTF8, "LC_ALL": "C"}, False), ({**UTF8, "TERM": "dumb"}, False)])
def test_memory_over_a_step_is_a_line_of_blocks_or_letters(lowtide, graph, environment,
                                                           shows_blocks):
    for command in [("plan", graph, "--budget", "80%", *QUICK),
                    ("train", *TINY, "--budget", "80%", "--steps", "1", *QUICK)]:
        code, seen = on_terminal(lowtide, *command, environment=environment)
        assert code == 0
        line = re.search(r"budget used over a step\s+(.*)", seen).group(1).strip()
        signs = BLOCKS if shows_blocks else "_.:-=+*#"
        assert len(line) == 40 and set(line) <= set(signs)
        assert signs[-1] in line  # the peak is within an eighth of the budget


def test_a_pipe_gets_plain_letters(lowtide, commands):
    for command in commands:
        done = lowtide(*command)
        assert done.code == 0, done.err
        assert "\x1b" not in done.out + done.err and "\r" not in done.out + done.err
        assert not set(BLOCKS) & set(done.out)


def test_quiet_shows_the_result_alone(lowtide, graph):
    for command in [("plan", graph, "--budget", "80%", *QUICK),
                    ("compare", graph, "--budgets", "80%", "--strategies", "search", *QUICK),
                    ("frontier", graph, "--points", "2", *QUICK),
                    ("train", *TINY, "--budget", "80%", "--steps", "2", "--check", *QUICK),
                    ("run", *TINY), ("profile", graph, "-o", "p.json"),
                    ("estimate", graph, "--budget", "80%", *QUICK),
                    ("layout", graph, "--budget", "80%", *QUICK),
                    ("tune", *TINY, "--budget", "1GiB", "--no-run", *QUICK),
                    ("max-batch", *TINY[:2], *TINY[4:], "--budget", "8MiB", "--limit", "4",
                     "--no-run", *QUICK)]:
        done = lowtide(*command, "--quiet")
        assert done.code == 0 and not done.err, (command, done.err)
        assert done.out
    lowtide("plan", graph, "--budget", "1", "-q").fails(3, "smallest budget")
