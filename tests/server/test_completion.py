"""Completion of the command line, as each shell does it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from toolbox_mcp.server.cli import COMMANDS, Surroundings, run
from toolbox_mcp.server.config.flags import flag_names

OFFERED = {
    "toolbox-mcp ": {*COMMANDS},
    "toolbox-mcp --": {"--version", *flag_names()},
    "toolbox-mcp --pre": {"--preset"},
    "toolbox-mcp --preset ": {"reader", "editor", "coder", "beside"},
    "toolbox-mcp --transport s": {"stdio", "sse"},
    "toolbox-mcp --root fold": {"folder"},
    "toolbox-mcp --config no": {"notes.yaml"},
    "toolbox-mcp log --fo": {"--follow"},
    "toolbox-mcp --preset coder log --tool csv_": {"csv_read", "csv_write"},
    "toolbox-mcp install cod": {"codex"},
    "toolbox-mcp call read_": {"read_file"},
    "toolbox-mcp completion ": {"bash", "zsh", "fish"},
    "toolbox-mcp --host 12": set(),
}
"""What is typed, and what every shell has to offer for it; options of a command beside others."""

BASH = """
source ./script
for line in "$@"; do
    COMP_WORDS=($line) COMPREPLY=()
    [[ $line == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _toolbox_mcp
    echo "${COMPREPLY[@]}"
done
"""
FISH = """
source ./script
for line in $argv
    echo (complete -C $line | string split -f 1 \\t | string trim -r -c /)
end
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Return a function that writes the script for a shell into the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.yaml").touch()

    def write(shell: str) -> None:
        with (tmp_path / "script").open("w") as out, open(os.devnull) as nothing:
            around = Surroundings({}, Path(tmp_path), out, out, nothing, lambda work: work())
            assert run(["completion", shell], around) == 0

    return write


def differing(command: list[str]) -> list[str]:
    lines = list(OFFERED)
    done = subprocess.run([*command, *lines], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    offered = map(set, map(str.split, done.stdout.splitlines()))
    wrong = []
    for line, found in zip(lines, offered, strict=True):
        # A command, or an option of the other kind, may be offered beside what was asked for.
        more = found - OFFERED[line] if line.endswith((" ", "-")) else set()
        if found - more != OFFERED[line] or any(not word.startswith("-") for word in more):
            wrong.append(f"{line!r} offers {sorted(found)}, not {sorted(OFFERED[line])}")
    return wrong


def test_bash_completes_commands_options_and_values(script):
    script("bash")
    assert differing(["bash", "-c", BASH, "bash"]) == []


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes_commands_options_and_values(script):
    script("fish")
    assert differing(["fish", "--no-config", "-c", FISH]) == []


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh_completes_with_the_function_of_bash(script, tmp_path):
    script("zsh")
    ours = "source ./script && print -r -- $_comps[toolbox-mcp] && functions _toolbox_mcp | head -1"
    done = subprocess.run(
        ["zsh", "-f", "-c", ours],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "ZDOTDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["_bash_complete", "-F", "_toolbox_mcp", "_toolbox_mcp", "()", "{"], done.stderr
