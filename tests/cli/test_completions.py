"""Completions of the command in bash, zsh and fish."""

import re
import shutil
import subprocess

import pytest

SHELLS = ("bash", "zsh", "fish")


def completed_by_bash(script, *words):
    """What bash offers for the last of these words."""
    quoted = " ".join(f"'{word}'" for word in words)
    done = subprocess.run(
        ["bash", "--norc", "-c", f'source "$1"; COMP_WORDS=({quoted}); '
         'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lowtide; printf "%s\\n" "${COMPREPLY[@]}"',
         "bash", script], capture_output=True, text=True, timeout=60, cwd=script.parent)
    assert not done.stderr, done.stderr
    return done.stdout.split()


@pytest.fixture
def script(lowtide):
    def written(shell):
        done = lowtide("completions", shell)
        assert done.code == 0, done.err
        path = lowtide.folder / f"completions.{shell}"
        path.write_text(done.out)
        return path

    return written


def test_bash_completes_commands_options_and_values(lowtide, script):
    bash = script("bash")
    assert completed_by_bash(bash, "lowtide", "pl") == ["plan"]
    assert completed_by_bash(bash, "lowtide", "--v") == ["--version"]
    assert completed_by_bash(bash, "lowtide", "train", "--save") == ["--save", "--save-every"]
    assert completed_by_bash(bash, "lowtide", "train", "--precision", "b") == ["bf16"]
    assert completed_by_bash(bash, "lowtide", "train", "--precision", "=", "b") == ["bf16"]
    assert set(completed_by_bash(bash, "lowtide", "graph", "--precision", "=")) == {
        "f32", "bf16", "fp16"}
    assert completed_by_bash(bash, "lowtide", "train", "--steps", "1") == []
    assert completed_by_bash(bash, "lowtide", "completions", "f") == ["fish"]


def test_bash_completes_names_of_the_lists(lowtide, script):
    bash = script("bash")
    models = [one["name"] for one in lowtide("models", "--json").json["models"]]
    assert completed_by_bash(bash, "lowtide", "train", "--model", "") == models
    strategies = [one["name"] for one in lowtide("strategies", "--json").json["strategies"]]
    assert completed_by_bash(bash, "lowtide", "plan", "-s", "") == strategies
    devices = [one["name"] for one in lowtide("devices", "--json").json["like"]]
    assert completed_by_bash(bash, "lowtide", "graph", "--like", "") == devices


def test_bash_completes_files_and_folders(lowtide, script):
    bash = script("bash")
    (lowtide.folder / "step.json").touch()
    (lowtide.folder / "steps").mkdir()
    assert sorted(completed_by_bash(bash, "lowtide", "plan", "ste")) == ["step.json", "steps"]
    assert completed_by_bash(bash, "lowtide", "train", "--disk", "ste") == ["steps"]
    assert sorted(completed_by_bash(bash, "lowtide", "plan", "-o", "ste")) == ["step.json", "steps"]


def test_bash_itself_calls_them(lowtide, script):
    """By the name of the command, as a user's shell does."""
    done = subprocess.run(["bash", "--norc", "-c", 'source "$1"; complete -p lowtide', "bash",
                           script("bash")], capture_output=True, text=True, timeout=60)
    assert done.stdout == "complete -F _lowtide lowtide\n"


def test_every_option_of_every_command_is_in_each_script(lowtide):
    scripts = [lowtide("completions", shell).out for shell in SHELLS]
    commands = re.findall(r"^  ([a-z][a-z-]+) ", lowtide("--help").out, re.MULTILINE)
    assert {"train", "plan", "completions"} <= set(commands)
    for command in commands:
        for option in re.findall(r"^  (?:-\w,)?--([a-z0-9-]+)", lowtide(command, "--help").out,
                                 re.MULTILINE):
            for text in scripts:
                assert re.search(rf"(--|-l ){option}\b", text), (command, option)


def test_fish_completes(lowtide, script):
    if shutil.which("fish") is None:
        pytest.skip("no fish here")
    path = script("fish")
    for line, offered in [("lowtide pl", "plan"), ("lowtide train --precision b", "bf16"),
                          ("lowtide completions z", "zsh")]:
        done = subprocess.run(["fish", "-c", f"source {path}; complete -C '{line}'"],
                              capture_output=True, text=True, timeout=60)
        assert [row.split("\t")[0] for row in done.stdout.splitlines()] == [offered], done.stderr


def test_zsh_reads_its_script(lowtide, script):
    if shutil.which("zsh") is None:
        pytest.skip("no zsh here")
    done = subprocess.run(
        ["zsh", "-f", "-c", 'autoload -U compinit; compinit -u -D; source "$1"; '
         'print $_comps[lowtide]', "zsh", script("zsh")], capture_output=True, text=True,
        timeout=60)
    assert done.stdout.strip() == "_lowtide", done.stderr


def test_another_shell_is_refused(lowtide):
    lowtide("completions", "fsh").fails(2, "bash, zsh and fish", 'Did you mean "fish"')
    lowtide("completions").fails(2, "shell")
    assert lowtide("completions", "bash", "--json").json["script"] == lowtide(
        "completions", "bash").out
