"""Work with git, and second thoughts about changes, in Claude Code: its own calls, of a model that follows a script."""

import json
import re
import subprocess

import pytest

from .coding_clients import handed

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


def said(pattern, answer):
    """Return what an answer says where a pattern has its group."""
    found = re.search(pattern, answer)
    assert found, answer
    return found[1]


def second_thoughts(project):
    """Change three files, take changes back by what the answers say alone, and think again. Somebody else writes meanwhile."""

    def undo_id(answer):
        return said(r" \[undo: (c\d+)\]\Z", answer)

    first = yield "edit_file", {"path": "app/main.py", "old_string": "return 1", "new_string": "return 2"}
    both = yield "replace_in_files", {"pattern": "return", "replacement": "yield", "glob": "*.py"}
    yield "move_file", {"source": "app/util.py", "destination": "lib/util.py"}
    refused = yield "undo", {"id": undo_id(first)}
    yield "undo", {"list": True}
    newest, next_one = said(r"undo (c\d+, c\d+) first", refused).split(", ")
    yield "undo", {"id": newest}
    undone = yield "undo", {"id": next_one}
    yield "undo", {"id": undo_id(undone)}
    yield "read_file", {"path": "app/main.py"}
    (project / "app/util.py").write_text("theirs\n")
    yield "undo", {"id": undo_id(both)}
    yield "undo", {}
    yield "undo", {"list": True}


def lost():
    """Look for files where they are not, and go on as the answers say."""
    refused = yield "read_file", {"path": "main.py"}
    yield "read_file", {"path": said(r"similar: ([^\s,\"]+)", refused)}
    none = yield "glob", {"pattern": "src/*.yml"}
    near = said(r"; (\S+) has \d+", none)
    yield "glob", {"pattern": near}
    none = yield "glob", {"pattern": "*.toml"}
    yield "glob", {"pattern": "*.toml", said(r"(\w+)=true\Z", none): True}


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

    home = tmp_path / "home"
    home.mkdir()

    def run(script):
        return [answer.text for answer in handed(clients, "claude-code", script, repository, home)]

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


def test_changes_are_taken_back_and_brought_again_by_what_the_answers_say(worked, repository):
    answers = worked(second_thoughts(repository))
    ages = re.compile(r"\t\d+ s ago\t")
    assert [ages.sub("\t", answer) for answer in answers[3:]] == [
        json.dumps(
            {
                "error": "app/main.py has changed since edit_file (c1)",
                "code": "changed_since",
                "hint": "undo c3, c2 first, in this order",
            }
        ),
        (
            "c3\tmove_file\tapp/util.py, lib, lib/util.py\tcan be undone\n"
            "c2\treplace_in_files\tapp/main.py, app/util.py\tundo c3 first\n"
            "c1\tedit_file\tapp/main.py\tundo c3, c2 first"
        ),
        "Undid move_file (c3): restored app/util.py; removed lib, lib/util.py [undo: c4]",
        "Undid replace_in_files (c2): restored app/main.py, app/util.py [undo: c5]",
        "Undid undo (c5): restored app/main.py, app/util.py [undo: c6]",
        "def main():\n    yield 2",
        "Undid replace_in_files (c2): restored app/main.py; left, as changed since: app/util.py [undo: c7]",
        "Undid edit_file (c1): restored app/main.py [undo: c8]",
        (
            "c8\tundo\tapp/main.py\tcan be undone\n"
            "c7\tundo\tapp/main.py\tchanged since: app/main.py\n"
            "c6\tundo\tapp/main.py, app/util.py\tchanged since: app/main.py, app/util.py\n"
            "c5\tundo\tapp/main.py, app/util.py\tundone\n"
            "c4\tundo\tapp/util.py, lib, lib/util.py\tchanged since: app/util.py\n"
            "c3\tmove_file\tapp/util.py, lib, lib/util.py\tundone\n"
            "c2\treplace_in_files\tapp/main.py, app/util.py\tundone\n"
            "c1\tedit_file\tapp/main.py\tundone"
        ),
    ]
    assert (repository / "app/main.py").read_text() == "def main():\n    return 1\n"
    assert (repository / "app/util.py").read_text() == "theirs\n"


def test_what_is_not_where_it_was_looked_for_is_found_by_the_next_call(worked, repository):
    for path in ("charts/a.yaml", ".ci/b.yaml", ".ci/c.toml"):
        (repository / path).parent.mkdir(exist_ok=True)
        (repository / path).touch()
    answers = worked(lost())
    assert answers[1] == "def main():\n    return 1"
    assert answers[2] == "no matches for src/*.yml; **/*.yaml has 2, 1 hidden"
    assert answers[3] == "charts/a.yaml"
    assert answers[4] == "no matches for *.toml; 1 hidden: include_hidden=true"
    assert answers[5] == ".ci/c.toml"
