"""A day of work with git in Claude Code: its own calls, of a model that follows a script."""

import json
import re
import subprocess

import pytest

from .conftest import SERVER
from .scripted_model import scripted

TOKENS = 10_000
PATCH = (
    "*** Begin Patch\n*** Update File: app/main.py\n@@ def main():\n-    return 1\n+    return 2\n"
    "*** Update File: app/util.py\n@@\n def util():\n-    return 'a'\n+    return 'b'\n"
    "*** Add File: docs/two.md\n+# Two\n*** End Patch\n"
)


def day():
    """Branch, change three files, commit, look back, go home; then look at a work tree where much has changed."""
    yield "git_status", {}
    yield "git_checkout", {"branch": "feature/two", "create": True}
    yield "apply_patch", {"patch": PATCH, "check": True}
    yield "apply_patch", {"patch": PATCH}
    yield "git_status", {}
    yield "git_diff", {}
    yield "git_add", {"paths": ["app/main.py"]}
    yield "git_commit", {"message": "Main returns two"}
    yield "git_add", {"paths": ["."]}
    yield "git_commit", {"message": "The rest"}
    yield "git_log", {"ref": "main..HEAD"}
    yield "git_blame", {"path": "app/main.py"}
    yield "git_checkout", {"branch": "main"}
    yield "git_branch", {}


def much():
    """Read on wherever an answer says how."""
    for tool in ("git_status", "git_diff"):
        answer = yield tool, {}
        while found := re.search(r"start_line=(\d+)[^\n]*\Z", answer):
            answer = yield tool, {"start_line": int(found[1])}


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "project"
    for name, text in (
        ("app/main.py", "def main():\n    return 1\n"),
        ("app/util.py", "def util():\n    return 'a'\n"),
        ("big.txt", "".join(f"line {number}\n" for number in range(20_000))),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for args in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b.c", *args], cwd=folder, check=True)
    return folder


@pytest.fixture
def worked(clients, tmp_path, repository):
    """Return what Claude Code passes on of the answers to a script."""

    def run(script):
        server = {"command": SERVER[0], "args": [*SERVER[1:], "--root", str(repository), "--preset", "coder"]}
        config = json.dumps({"mcpServers": {"toolbox": server}})
        args = ("--mcp-config", config, "--strict-mcp-config", "--allowedTools", "mcp__toolbox")
        with scripted(script, "mcp__toolbox__") as model:
            env = {
                "HOME": str(tmp_path), "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none", "ENABLE_TOOL_SEARCH": "false",
            }  # fmt: skip
            done = clients.run("claude", "-p", "go", *args, "--output-format", "json", cwd=repository, env=env)
        assert done.code == 0, done.out + done.err
        return model.answers

    return run


def test_a_day_of_work(worked, repository):
    answers = worked(day())
    rows = "3 file(s) (+3 -2)\nM app/main.py\nM app/util.py\nA docs/two.md"
    exact = {
        0: "## main\nclean",
        1: "Created and switched to feature/two",
        2: f"Applies cleanly: {rows}",
        4: "## feature/two\n M app/main.py\n M app/util.py\n?? docs/two.md",
        6: "Staged:\nM  app/main.py",
        8: "Staged:\nM  app/util.py\nA  docs/two.md",
        12: "Switched to main",
        13: "  feature/two\n* main",
    }
    assert {number: answers[number] for number in exact} == exact
    assert answers[3].startswith(f"Applied to {rows}")
    assert "-    return 1\n+    return 2" in answers[5]
    assert [row.split("  ", 3)[3] for row in answers[10].split("\n")] == ["The rest", "Main returns two"]
    assert [" (A " in row for row in answers[11].split("\n")] == [True, False]
    assert (repository / "app/main.py").read_text() == "def main():\n    return 1\n"


def test_two_thousand_changes_and_forty_thousand_lines_are_short_and_read_on(worked, repository):
    (repository / "big.txt").write_text("".join(f"LINE {number}\n" for number in range(20_000)))
    for number in range(2000):
        file = repository / f"src/m{number % 2}/f{number:04}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x\n")
    patch = subprocess.run(["git", "diff"], cwd=repository, check=True, capture_output=True, text=True).stdout
    answers = worked(much())
    assert max(map(len, answers)) < 4 * TOKENS
    first = next(number for number, answer in enumerate(answers) if answer.startswith(" big.txt | 40000 "))
    summary, *pages = answers[:first]
    assert summary.startswith("## main\n2001 entries: ")
    listed = [row for page in pages for row in page.split("\n") if row[2:3] == " " and not row.startswith("##")]
    assert len(listed) == len(set(listed)) == 2001
    seen = "".join(re.sub(r"\.\.\. not shown: .*\Z", "", page) for page in answers[first + 1 :])
    assert seen + "\n" == patch
