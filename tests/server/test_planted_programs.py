"""No program that lies in a root is ever taken for one of the server's own or of the operator's, whatever PATH says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from toolbox_mcp.server.config.presets.__init__ import DEV_COMMANDS
from toolbox_mcp.tools.catalogue import KNOWN_TOOLS

pytestmark = pytest.mark.attack

SCRIPT = Path(sys.executable).with_name("toolbox-mcp")
OTHERS = (
    "rg", "bwrap", "podman", "docker", "sh", "bash", "zsh", "dash", "env", "ps", "id", "unshare", "setpriv", "tectonic", "xcrun",
    "rustup", "rustc", "cargo", "python", "python3", "python3.11", "node", "nodejs", "ruby", "irb", "gem", "bundler", "cc", "gcc",
    "ld", "perl", "less", "cat", "ssh", "gpg", "editor", "vi", "pager", "git-upload-pack", "git-remote-https", "getent", "locale",
)  # fmt: skip

CALLS = [
    ("bash", {"command": ["git", "--version"]}),
    ("bash", {"command": ["python3", "-c", "1"]}),
    ("bash", {"command": ["python3", "-c", "1"], "sandboxed": True}),
    ("bash", {"command": ["ls"]}),
    ("bash", {"command": ["bin/git"]}),
    ("shell", {"commands": ["git --version; ls; python3 -c 1"]}),
    ("run_script", {"path": "s.py"}),
    ("run_script", {"path": "s.sh"}),
    ("run_script", {"path": "s.rb"}),
    ("process_start", {"command": ["python3", "-c", "1"]}),
    ("run_python", {"code": "print(1)"}),
    ("run_node", {"code": "console.log(1)"}),
    ("run_ruby", {"code": "puts 1"}),
    ("run_rust", {"code": "fn main() {}"}),
    ("git_status", {}),
    ("git_diff", {}),
    ("git_log", {}),
    ("git_show", {"ref": "HEAD"}),
    ("git_blame", {"path": "s.py"}),
    ("git_grep", {"pattern": "print"}),
    ("git_branch", {}),
    ("git_add", {"paths": ["s.py"]}),
    ("git_commit", {"message": "m"}),
    ("git_checkout", {"ref": "HEAD"}),
    ("run_tests", {}),
    ("run_tests", {"framework": "pytest"}),
    ("run_tests", {"framework": "rspec"}),
    ("run_tests", {"framework": "jest"}),
    ("run_tests", {"framework": "cargo"}),
    ("run_tests", {"framework": "go"}),
    ("python_tests", {}),
    ("lint", {}),
    ("lint", {"linter": "ruff"}),
    ("lint", {"linter": "rubocop"}),
    ("lint", {"linter": "eslint"}),
    ("bundle", {"command": "check"}),
    ("grep_files", {"pattern": "print"}),
    ("grep_files", {"pattern": "(?<=p)rint"}),
    ("glob", {"pattern": "*"}),
    ("code_outline", {}),
    ("read_file", {"path": "s.py"}),
    ("gem", {"name": "rake"}),
]


@pytest.fixture
def planted(project):
    """Return the root, in which everything looks like a project and all programs leave a mark."""
    for folder in ("", "bin"):
        (project / folder).mkdir(exist_ok=True)
        for name in {*DEV_COMMANDS, *OTHERS}:
            program = project / folder / name
            program.write_text(f'#!/bin/sh\necho "$0" >> {project.parent}/marks\necho 1.0\n')
            program.chmod(0o755)
    (project / "s.py").write_text("print(1)\n")
    (project / "s.sh").write_text("echo 1\n")
    (project / "s.rb").write_text("puts 1\n")
    (project / "test_s.py").write_text("def test_s(): pass\n")
    (project / "Gemfile").write_text("")
    (project / "package.json").write_text("{}")
    (project.parent / "link").symlink_to(project / "bin")
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    return project


def marks(project):
    file = project.parent / "marks"
    return sorted(set(file.read_text().splitlines())) if file.exists() else []


@pytest.fixture
def hostile(planted):
    """Return an environment whose PATH leads into the root in every way."""
    home = planted.parent / "home"
    home.mkdir()
    folders = [str(planted / "bin"), str(planted), "", ".", "bin", str(planted.parent / "link"), f"{planted}/x/../bin"]
    return {"HOME": str(home), "SHELL": "/bin/sh", "PATH": os.pathsep.join([*folders, os.environ["PATH"]])}


def test_without_care_they_would_run(planted, hostile):
    subprocess.run(
        ["/bin/sh", "-c", "git --version; python3 -c 1; rg x"],
        cwd=planted,
        env=hostile,
        capture_output=True,
        check=True,
    )
    assert len(marks(planted)) == 3


@pytest.mark.parametrize("command", [["doctor"], ["doctor", "--json"], ["tools"], ["config", "--show"], ["--version"]])
def test_the_command_line_runs_none(planted, hostile, command):
    argv = [
        str(SCRIPT),
        *command,
        *(["--root", str(planted), "--preset", "coder"] if command[0] != "--version" else []),
    ]
    subprocess.run(argv, cwd=planted, env=hostile, capture_output=True, timeout=120, check=False)
    assert marks(planted) == []


@pytest.mark.parametrize("runtime", ["auto", "bubblewrap", "native", "landlock"])
async def test_no_tool_runs_one(planted, hostile, runtime):
    args = ["--root", str(planted), "--preset", "coder", "--set", f"sandbox_runtime={runtime}"]
    server = StdioServerParameters(command=str(SCRIPT), args=args, env=hostile, cwd=str(planted))
    asked = {name for name, _ in CALLS}
    calls = CALLS + [(name, {}) for name in KNOWN_TOOLS if name not in asked]
    answered = 0
    blamed = []
    with anyio.fail_after(300):
        async with Client(server) as client:
            for name, arguments in calls:
                before = marks(planted)
                result = await client.call_tool(name, arguments)
                answered += not result.is_error
                if after := [mark for mark in marks(planted) if mark not in before]:
                    blamed.append((name, json.dumps(arguments), after))
    assert blamed == []
    # Enough of the calls do what they are for.
    assert answered > 20
