"""What a confined program can do to the protected places of the folder that it writes."""

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.machine import no_back_end, skip_for
from toolbox_mcp.safety.path_jail.roots import Roots
from toolbox_mcp.sandbox.process.capture import Capture
from toolbox_mcp.sandbox.service import Sandbox, SandboxSettings

pytestmark = [pytest.mark.attack, pytest.mark.skipif(sys.platform != "linux", reason="the back ends of Linux")]

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}
GLOBS = (".mcp.json", ".claude/**", ".vscode/**", ".github/workflows/**", "*.code-workspace")

FILES = (
    ".git/config",
    ".git/hooks/sample",
    ".vscode/tasks.json",
    ".github/workflows/ci.yml",
    "sub/.git/config",
    "tree/.git",
    "meta/hooks/sample",
    "bare/HEAD",
    "bare/objects/x",
    "bare/refs/x",
    "cfg/settings.json",
    "src/main.py",
)

CHANGES = (
    "echo x > .git/hooks/post-commit",
    "echo x > .git/config",
    "rm -rf .git",
    "mv .git git",
    "mv .git/hooks hooks; mkdir .git/hooks",
    "mount -o remount,rw .git",
    "umount .git",
    "ln .git/config config; echo x > config",
    "cd .git && echo x > config",
    "ln -s .git g; echo x > g/config",
    "echo x > .vscode/tasks.json",
    "rm -rf .vscode",
    "echo x > .github/workflows/ci.yml",
    "mv sub away; echo x > away/.git/config; mv away sub",
    "echo x > meta/hooks/sample",
    "echo x > bare/config",
    "echo x > cfg/settings.json",
    "chmod 777 .git/config; echo x > .git/config",
)
"""Lines that changed what exists, each."""

ARRIVALS = (
    ("echo x > .mcp.json", ".mcp.json"),
    ("echo x > .MCP.JSON", ".MCP.JSON"),
    ("mkdir src/.claude && echo x > src/.claude/settings.json", "src/.claude"),
    ("mkdir made && echo x > made/settings.json && mv made src/.claude", "src/.claude"),
    ("ln -s src src/.vscode", "src/.vscode"),
    ("ln -s src src/.github", "src/.github"),
    ("echo x > real.json", "real.json"),
    ("mkdir -p n/.git/hooks && echo x > n/.git/hooks/pre-commit", "n/.git"),
    ("mkdir n/objects n/refs -p; echo x > n/HEAD", "n/HEAD"),
    ("echo x > x.code-workspace", "x.code-workspace"),
    ("mv sub away; mkdir -p sub/.git; echo x > sub/.git/config", "sub/.git/config"),
    ("mkdir -p d/.claude; echo x > d/.claude/s; chmod 555 d", "d/.claude"),
    ("mkdir -p src/.github/workflows; echo x > src/.github/workflows/x", "src/.github/workflows"),
    ("rm .claude; mkdir .claude; echo x > .claude/settings.json", ".claude/own"),
)
"""Lines that put something at a protected place that did not exist, and the place."""


@pytest.fixture
async def made(tmp_path):
    async with contextlib.AsyncExitStack() as stack:

        def make(runtime, files=FILES):
            skip_for(no_back_end(runtime))
            # As root the programs are nobody, who may not enter a folder of the tests.
            base = tempfile.mkdtemp(prefix="protected-")
            stack.callback(shutil.rmtree, base)
            for name in files:
                file = Path(base, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("gitdir: ../meta\n" if name == "tree/.git" else "kept")
            if files:
                os.symlink("cfg", f"{base}/.claude")
                os.symlink("real.json", f"{base}/link.mcp")
                os.symlink("../real.json", f"{base}/src/.mcp.json")
            for folder, _, names in os.walk(base):
                os.chmod(folder, 0o777)
                for name in names:
                    if not os.path.islink(f"{folder}/{name}"):
                        os.chmod(f"{folder}/{name}", 0o666)
            roots = Roots([base], protected=GLOBS)
            stack.callback(roots.close)
            sandbox = Sandbox(SandboxSettings(tmp_path, Path("/tmp"), "/nonexistent", ENV, runtime), roots=roots)
            stack.push_async_callback(sandbox.aclose)

            async def run(line):
                done = await sandbox.run_on(
                    base, ["/bin/sh", "-c", line], cwd=base, env={}, timeout=20, capture=Capture()
                )
                return done.finished

            return run, Path(base)

        yield make


def content(base):
    return {name: (base / name).read_text() for name in FILES if name != "src/main.py"}


@pytest.mark.parametrize("runtime", ["bubblewrap", "native", "landlock"])
async def test_a_confined_program_changes_nothing_that_is_protected(made, runtime):
    run, base = made(runtime)
    before = content(base)
    changed = []
    for line in CHANGES:
        await run(line)
        if content(base) != before:
            changed.append(line)
            break
    assert changed == []
    assert {path.name for path in (base / ".git").rglob("*")} == {"config", "hooks", "sample"}
    # What is not protected is written, by the same means.
    done = await run("echo x > src/main.py && echo x > src/made && mv src/made src/moved")
    assert (done.exit_code, done.stderr.text) == (0, "")
    assert (base / "src/moved").read_text() == "x\n"


@pytest.mark.parametrize("runtime", ["bubblewrap", "native"])
async def test_what_comes_to_a_protected_place_has_another_name_when_the_program_has_ended(made, runtime):
    fallen = []
    for line, place in ARRIVALS:
        run, base = made(runtime)
        done = await run(line)
        if os.path.lexists(base / place) or "is protected" not in done.stderr.text:
            fallen.append((line, done.stderr.text))
    assert fallen == []


@pytest.mark.parametrize("runtime", ["bubblewrap", "native"])
async def test_what_is_blocked_is_kept_and_told_and_a_link_is_put_back(made, runtime):
    run, base = made(runtime)
    done = await run("echo mine > .mcp.json; rm .claude")
    assert done.stderr.text.splitlines() == [
        "[.mcp.json is protected: what was put there has the name blocked-mcp.json]",
        "[.claude is protected: it is the link again that it was]",
    ]
    assert (base / "blocked-mcp.json").read_text() == "mine\n"
    assert os.readlink(base / ".claude") == "cfg"


@pytest.mark.parametrize("runtime", ["bubblewrap", "native", "landlock"])
async def test_a_folder_without_protected_places_is_written_freely(made, runtime):
    run, _ = made(runtime, files=())
    done = await run("mkdir a && echo x > a/b && mv a c && echo x > top && rm top && ls")
    assert (done.exit_code, done.stdout.text, done.stderr.text) == (0, "c\n", "")
