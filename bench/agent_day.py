"""Twelve tasks of a coding agent on real repositories: calls, tokens of the answers, and failures.

    python bench/agent_day.py --click CLICK --debug DEBUG --cursor CURSOR [--show b] [--commander]

CLICK, DEBUG and CURSOR are clones of pallets/click, debug-js/debug and piotrmurach/tty-cursor that nobody works in: they must be clean, are
changed, and are reset at the end. CLICK needs a .venv with pytest, ruff, numpy and click itself (`pip install -e .`), DEBUG its
node_modules. The other files are made.

Each task is a plausible sequence of calls that reads on where the answers say so. A failure is a refusal, or a program that failed; those that
are wanted (wrong edits on purpose, tests that find a bug) count apart. Tokens are those of the text of answers, in o200k_base.
--show prints each call and answer of a task. --commander does the tasks' steps that desktop-commander can do in it, too.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peers
from client import LineClient

from toolbox_mcp.server.budget.vocabulary import load

TOKENS = load("o200k_base")
PROGRAM_FAILED = re.compile(
    r"(?:exit: [1-9]|result: |TESTS FAILED|TESTS DID NOT RUN|TESTS: none|LINT ERROR|BUNDLE FAILED|no matches)"
)


@dataclass(frozen=True)
class Step:
    """One call. wanted: it is meant to fail."""

    tool: str
    arguments: dict[str, Any]
    wanted: bool = False


Task = Generator[Step, str, None]


def ask(tool: str, /, **arguments: Any) -> Step:
    return Step(tool, arguments)


def fails(tool: str, /, **arguments: Any) -> Step:
    return Step(tool, arguments, wanted=True)


def line_of(answer: str, name: str) -> int:
    """Return the line that an outline or a search names for a definition."""
    found = re.search(rf":(\d+):[^\n]*\b{re.escape(name)}\b", answer)
    assert found, answer
    return int(found[1])


def explain(root: Path) -> Task:
    """How click finds the value of a parameter."""
    where = yield ask("code_outline", path="src/click", query="consume_value")
    start = line_of(where, "consume_value")
    yield ask("read_file", path="src/click/core.py", start_line=start, end_line=start + 50)
    parts = yield ask(
        "grep_files",
        pattern="def (value_from_envvar|resolve_envvar_value|get_default|lookup_default)\\b",
        path="src/click/core.py",
    )
    start = line_of(parts, "value_from_envvar")
    yield ask("read_file", path="src/click/core.py", start_line=start - 50, end_line=start + 30)
    yield ask("grep_files", pattern="class ParameterSource", path="src/click/core.py", after=40)


BUGS = {
    "src/click/types.py": ("        return bound + dir\n", "        return bound - dir\n"),
    "src/click/formatting.py": ("rv.sort(key=lambda x: x[0])", "rv.sort(key=lambda x: -x[0])"),
    "src/click/exceptions.py": ("get_close_matches(option_name, possibilities)", "get_close_matches(option_name, [])"),
}


def find_bugs(root: Path) -> Task:
    """Three bugs that the tests know of: find each, fix it, see the tests pass."""
    for path, (right, wrong) in BUGS.items():
        text = (root / path).read_text()
        assert right in text, f"{path} is not the click that this was written for"
        (root / path).write_text(text.replace(right, wrong, 1))
    yield ask("git_log", count=5)
    yield fails("run_tests")
    for path, name in (
        ("types.py", "_clamp"),
        ("formatting.py", "join_options"),
        ("exceptions.py", "get_close_matches"),
    ):
        found = yield ask("grep_files", pattern=name, path=f"src/click/{path}", limit=5)
        start = int(re.findall(r":(\d+):", found)[-1 if name == "_clamp" else 0])
        yield ask("read_file", path=f"src/click/{path}", start_line=max(start - 40, 1), end_line=start + 25)
    for path, (right, wrong) in BUGS.items():
        old, new = (wrong, right) if path != "src/click/types.py" else (f"self, bound: int, {wrong}", right)
        if path == "src/click/types.py":
            old, new = (
                "        if not open:\n            return bound\n\n" + wrong,
                "        if not open:\n            return bound\n\n" + right,
            )
        yield ask("edit_file", path=path, old_string=old, new_string=new)
    yield ask("run_tests", filter="clamp or help or suggest")
    yield ask("bash", command="pytest", args=["-q", "tests/test_options.py"])
    yield ask("run_tests")
    yield ask("git_status")


def wrong_edits(root: Path) -> Task:
    """Edits as models get them wrong, each followed by the right one."""
    path = "src/click/utils.py"
    yield fails("edit_file", path=path, old_string="def safecall(func):\n", new_string="x")
    yield fails("edit_file", path=path, old_string="    return rv;\n", new_string="    return rv\n")
    yield fails("edit_file", path="click/utils.py", old_string="a", new_string="b")
    yield fails("edit_file", path=path, old_string="12\tdef echo(", new_string="x")
    yield fails("edit_file", path=path, old_string="x", new_string="x")
    yield fails("edit_file", file_path=path, old_str="a", new_str="b")
    yield fails("multi_edit", path=path, edits=[{"old_string": "no such text", "new_string": "b"}])
    yield fails("edit_lines", path=path, operation="replace", match_lines=["no such line"], lines=["b"])
    yield fails("replace_in_files", pattern="(", replacement="b", regex=True)


def rename(root: Path) -> Task:
    """A function in the sources and tests, and the file of its tests."""
    yield ask("grep_files", pattern="_expand_args", output="count")
    yield ask(
        "replace_in_files",
        pattern="\\b_expand_args\\b",
        replacement="_widen_args",
        glob="*.py",
        regex=True,
        dry_run=True,
    )
    yield ask("replace_in_files", pattern="\\b_expand_args\\b", replacement="_widen_args", glob="*.py", regex=True)
    found = yield ask("glob", pattern="test*expand_args.py")
    if found.startswith("tests/"):
        yield ask("move_file", source=found, destination=found.replace("expand", "widen"))
    yield ask("run_tests", filter="widen")


SERVER = (
    "const http = require('http');\nhttp.createServer((q, r) => r.end(JSON.stringify({url: q.url})))"
    ".listen(0, '127.0.0.1', function () { console.log('listening on ' + this.address().port) });\n"
)


def dev_server(root: Path) -> Task:
    """Write a server, start it, query it, change it, stop it."""
    yield ask("write_file", path="server.js", content=SERVER)
    started = yield ask("process_start", command="node", args=["server.js"], wait_for="listening", wait=20, name="dev")
    [port] = re.findall(r"listening on (\d+)", started)
    yield ask("http_request", url=f"http://127.0.0.1:{port}/a")
    yield ask("bash", command="curl", args=["-s", f"http://127.0.0.1:{port}/b"])
    yield ask("shell", command=f"curl -s http://127.0.0.1:{port}/c")
    yield ask("process_output", id="dev")
    yield ask("process_kill", id="dev")
    yield fails("http_request", url=f"http://127.0.0.1:{port}/a")


def module(root: Path) -> Task:
    """A module with tests, an experiment with numpy, a commit."""
    yield ask(
        "write_file", path="src/click/mean.py", content="def mean(values):\n    return sum(values) / len(values)\n"
    )
    yield ask(
        "write_file",
        path="tests/test_mean.py",
        content="from click.mean import mean\n\n\ndef test_mean():\n    assert mean([1, 2]) == 1.5\n\n\ndef test_empty():\n    assert mean([]) == 0\n",
    )
    yield fails("run_tests", path="tests/test_mean.py")
    yield ask("edit_file", path="src/click/mean.py", old_string="len(values)\n", new_string="max(len(values), 1)\n")
    yield ask("run_tests", path="tests/test_mean.py")
    yield ask(
        "bash", command="python", args=["-c", "import numpy; from click.mean import mean; print(mean(numpy.arange(5)))"]
    )
    yield ask("lint", path="src/click/mean.py")
    yield ask("git_add", paths=["src/click/mean.py", "tests/test_mean.py"])
    yield ask("git_diff", staged=True)
    yield ask("git_commit", message="Add mean")
    yield ask("git_log", count=1)


def node_project(root: Path) -> Task:
    """Install, run all tests and some, lint, look around."""
    yield ask("tree", max_depth=2)
    yield ask("read_file", path="package.json")
    yield ask("bash", command="npm", args=["install", "--offline"])
    yield ask("run_tests", filter="extend namespace")
    yield ask("bash", command="npx", args=["mocha", "test.node.js"])
    yield ask("bash", command="node", args=["-e", "require('./src')('a')('hello')"], env={"DEBUG": "*"})
    yield ask("code_outline", path="src/common.js")
    yield fails("lint")


MINITEST = "require 'minitest/autorun'\nclass TestSum < Minitest::Test\n  def test_sum; assert_equal 3, [1, 2].sum; end\n  def test_bad; assert_equal 4, [1, 2].sum; end\nend\n"


def ruby(root: Path) -> Task:
    """A gem: outline, lint, autocorrect, an experiment; its gems are not installed."""
    yield ask("code_outline", path="lib/tty/cursor.rb")
    yield fails("run_tests")
    yield fails("bundle", action="check")
    yield ask("lint", path="lib/tty/cursor/version.rb")
    yield ask("lint", path="lib/tty/cursor/version.rb", autocorrect=True)
    yield ask("git_diff")
    yield ask("bash", command="ruby", args=["-Ilib", "-e", "require 'tty/cursor'; p TTY::Cursor.up(2)"])
    yield ask("run_ruby", code="puts [1, 2].sum")
    yield ask("write_file", path="small/test/test_sum.rb", content=MINITEST)
    yield ask("write_file", path="small/Rakefile", content="require 'rake/testtask'\nRake::TestTask.new\n")
    yield fails("run_tests", path="small")


def second_thoughts(root: Path) -> Task:
    """Five edits, a move, a rename; take them back and bring them again."""
    for number in range(5):
        yield ask("edit_file", path="small.txt", old_string=f"line {number}\n", new_string=f"LINE {number}\n")
    yield ask("move_file", source="small.txt", destination="a/b/small.txt")
    yield ask("replace_in_files", pattern="line", replacement="row", path="a/b/small.txt")
    yield fails("undo", id="c1")
    yield ask("undo", list=True)
    undone = ""
    for _ in range(3):
        undone = yield ask("undo")
    [again] = re.findall(r"undo: (c\d+)", undone)
    yield ask("undo", id=again)
    yield ask("read_file", path="small.txt")


def odd_files(root: Path) -> Task:
    """CRLF, Latin-1, UTF-16, a log of 20 MB, a line of 2 MB, JSON, an image, bytes."""
    yield ask("read_file", paths=["crlf.txt", "latin.txt", "utf16.txt"])
    yield ask("edit_file", path="crlf.txt", old_string="two\nthree", new_string="2\n3")
    yield ask("edit_file", path="latin.txt", old_string="caf", new_string="CAF")
    yield ask("edit_file", path="utf16.txt", old_string="two", new_string="2")
    yield ask("file_info", path="log.txt")
    yield ask("read_file", path="log.txt", tail=5)
    yield ask("grep_files", pattern="ERROR", path="log.txt", limit=5)
    yield ask("grep_files", pattern="ERROR", path="log.txt", output="count")
    yield ask("bash", command="grep", args=["-c", "ERROR", "log.txt"])
    yield ask("json_query", path="data.json", query="users[3].name")
    yield ask("read_file", path="a.png")
    yield fails("read_file", path="bytes.bin")
    yield ask("read_file", path="line.txt", start_line=1, start_char=1_900_000)
    yield fails("read_file", path="crlf.text")


def monorepo(root: Path) -> Task:
    """api/, web/ and lib/, each with tests of its own."""
    yield fails("run_tests")
    yield fails("run_tests", path="mono/api")
    yield fails("run_tests", path="mono/web")
    yield ask("bash", command="npm", args=["run", "hello"], work_dir="mono/web")
    yield ask("grep_files", pattern="TODO", path="mono", include_hidden=True)
    yield ask("glob", pattern="package.json", base="mono")
    yield ask("tree", path="mono")


LINES = (
    "ls", "ls -la | head -3", "pwd", "cat small.txt | head -2", "grep -rn line small.txt | wc -l", "find . -name '*.txt' | sort | head -3",
    "wc -l *.txt", "head -c 20 small.txt", "tail -2 small.txt", "sort -r small.txt | uniq | head -2", "sed -n 2p small.txt", "awk '{print $2}' small.txt | head -2",
    "cut -d' ' -f2 small.txt | head -1", "diff small.txt small.txt && echo same", "echo $HOME > /dev/null && echo ok", "for f in a b; do echo $f; done",
    "mkdir -p made/deep && touch made/deep/x && ls made/deep", "cp small.txt made/copy.txt", "mv made/copy.txt made/moved.txt", "rm made/moved.txt", "rm -r made",
    "test -d made || echo gone", "python3 -c 'print(1)'", "python3 --version", "git init -q inner && ls -d inner", "cd mono && ls", "(cd mono; ls api)",
    "tar czf a.tgz small.txt && tar tzf a.tgz", "date +%Y | wc -c", "env | grep -c PATH", "xargs echo < small.txt | cut -c1-20", "seq 1 5 | paste -sd+",
    "printf '%s\\n' a b | tac", "rmdir inner/.git/nothing 2>/dev/null; true", "seq 1 20000",
)  # fmt: skip


def everyday_lines(root: Path) -> Task:
    """Lines for a shell as people type them."""
    for line in LINES:
        yield ask("shell", command=line)
    yield fails("shell", command="sudo true")
    yield fails("shell", command="vim small.txt")


def made(folder: Path) -> Path:
    """Lay out the files of the tasks that need no repository."""
    (folder / "small.txt").write_text("".join(f"line {number}\n" for number in range(20)))
    (folder / "crlf.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    (folder / "latin.txt").write_bytes("café\n".encode("latin-1"))
    (folder / "utf16.txt").write_text("one\ntwo\n", encoding="utf-16")
    (folder / "log.txt").write_text(
        "".join(f"{n} {'ERROR' if n % 5000 == 0 else 'INFO'} request served in {n % 97} ms\n" for n in range(520_000))
    )
    (folder / "line.txt").write_text("x" * 2_000_000)
    (folder / "data.json").write_text(
        json.dumps({"users": [{"name": f"user {n}", "tags": [n, n + 1]} for n in range(2000)]})
    )
    (folder / "bytes.bin").write_bytes(bytes(range(256)) * 100)
    png = "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c63680000008200814 1cdb5cad80000000049454e44ae426082"
    (folder / "a.png").write_bytes(bytes.fromhex(png.replace(" ", "")))
    for name, text in {
        "api/pyproject.toml": '[project]\nname = "api"\nversion = "0"\n',
        "api/test_api.py": "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_bad(self):\n        self.assertEqual(1, 2)  # TODO\n",
        "web/package.json": json.dumps({"name": "web", "scripts": {"test": "node --test", "hello": "echo hello"}}),
        "web/a.test.js": "const test = require('node:test'), assert = require('assert');\ntest('ok', () => {});\ntest('bad', () => assert.equal(1, 2));\n",
    }.items():
        file = folder / "mono" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


TASKS: dict[str, tuple[str, Callable[[Path], Task]]] = {
    "a": ("click", explain),
    "b": ("click", find_bugs),
    "b'": ("click", wrong_edits),
    "c": ("click", rename),
    "d": ("made", dev_server),
    "e": ("click", module),
    "f": ("debug", node_project),
    "g": ("cursor", ruby),
    "h": ("made", second_thoughts),
    "i": ("made", odd_files),
    "j": ("made", monorepo),
    "k": ("made", everyday_lines),
}


@dataclass
class Sum:
    """calls, tokens of their answers, failures, and failures that were wanted."""

    calls: int = 0
    tokens: int = 0
    failures: int = 0
    wanted: int = 0

    def row(self, name: str) -> str:
        return f"{name:4} {self.calls:5} {self.tokens:7} {self.failures:9} {self.wanted:7}"


def worked(server: list[str], root: Path, task: Task, show: bool) -> Sum:
    """Do one task in a session of its own."""
    found = Sum()
    with LineClient([*server, "--root", str(root)]) as client:
        client.initialize()
        step = next(task)
        while True:
            result = client.request("tools/call", {"name": step.tool, "arguments": step.arguments})
            text = "\n".join(block.get("text", f"<{block['type']}>") for block in result["content"])
            failed = bool(result.get("isError") or PROGRAM_FAILED.match(text))
            found.calls += 1
            tokens = len(TOKENS.encode(text, disallowed_special=()))
            found.tokens += tokens
            found.failures += failed and not step.wanted
            found.wanted += failed and step.wanted
            if show or (failed and not step.wanted) or (step.wanted and not failed):
                state = "failed" if failed else "ok"
                print(
                    f"--- {step.tool} {json.dumps(step.arguments)[:300]}: {state}, {tokens} tokens\n{text if show else text[:600]}"
                )
            try:
                step = task.send(text)
            except StopIteration:
                return found


class Clone:
    """A clone that is reset to how it was found."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        if self._git("status", "--porcelain"):
            sys.exit(f"{root} has changes that are not committed; name a clone that nobody works in")
        self._head = self._git("rev-parse", "HEAD")

    def reset(self) -> None:
        self._git("reset", "-q", "--hard", self._head)
        self._git("clean", "-fdq", "-e", ".venv", "-e", "node_modules")

    def _git(self, *args: str) -> str:
        done = subprocess.run(["git", "-C", str(self.root), *args], check=True, capture_output=True, text=True)
        return done.stdout.strip()


COMMANDER: dict[str, Callable[[Path], list[tuple[str, dict[str, Any]]]]] = {
    "failing tests: which and why": lambda root: [
        ("start_process", {"command": f"cd {root} && .venv/bin/pytest -q 2>&1 | tail -40", "timeout_ms": 60_000})
    ],
    "an edit": lambda root: [
        ("edit_block", {"file_path": str(root / "src/click/termui.py"), "old_string": "def echo_via_pager(", "new_string": "def page("})
    ],
    "a rename in the repository": lambda root: [
        ("start_process", {"command": f"cd {root} && grep -rl _expand_args --include=*.py . | xargs sed -i s/_expand_args/_widen_args/g && git status --short", "timeout_ms": 10_000})
    ],
    "read core.py": lambda root: [("read_file", {"path": str(root / "src/click/core.py"), "offset": at, "length": 1000}) for at in range(0, 4000, 1000)],
}  # fmt: skip

OURS: dict[str, Callable[[Path], list[tuple[str, dict[str, Any]]]]] = {
    "failing tests: which and why": lambda root: [("run_tests", {})],
    "an edit": lambda root: [("edit_file", {"path": "src/click/termui.py", "old_string": "def echo_via_pager(", "new_string": "def page("})],
    "a rename in the repository": lambda root: [("replace_in_files", {"pattern": "_expand_args", "replacement": "_widen_args", "glob": "*.py"})],
    "read core.py": lambda root: [],
}  # fmt: skip


def compare(server: list[str], clone: Clone) -> None:
    """Print calls and tokens of a few steps in ours and in desktop-commander."""
    commands = {"ours": [*server, "--root", str(clone.root)], "desktop-commander": peers.command("desktop-commander")}
    steps = {"ours": OURS, "desktop-commander": COMMANDER}
    for name, command in commands.items():
        for step, calls in steps[name].items():
            clone.reset()
            if step.startswith("failing"):
                for path, (right, wrong) in BUGS.items():
                    file = clone.root / path
                    file.write_text(file.read_text().replace(right, wrong, 1))
            with LineClient(command, cwd=str(clone.root)) as client:
                client.initialize()
                texts = []
                for tool, arguments in calls(clone.root):
                    texts.append(_text(client.request("tools/call", {"name": tool, "arguments": arguments})))
                start = 1 if name == "ours" and step == "read core.py" else None
                while start:
                    arguments = {"path": "src/click/core.py", "start_line": start}
                    texts.append(_text(client.request("tools/call", {"name": "read_file", "arguments": arguments})))
                    more = re.search(r"continue with start_line=(\d+)\]\Z", texts[-1])
                    start = int(more[1]) if more else None
            tokens = sum(len(TOKENS.encode(text, disallowed_special=())) for text in texts)
            print(f"{name:18} {step:30} {len(texts):3} calls {tokens:6} tokens")
    clone.reset()


def _text(result: Any) -> str:
    return "\n".join(block.get("text", "") for block in result["content"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("click", "debug", "cursor"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--show", default="", help="letters of tasks whose calls and answers are printed")
    parser.add_argument("--only", default="", help="letters of tasks; all of them otherwise")
    parser.add_argument("--commander", action="store_true")
    given = parser.parse_args()
    command = shutil.which("toolbox-mcp", path=str(Path(sys.executable).parent))
    assert command, "toolbox-mcp is not installed beside this Python"
    server = [command, "--preset", "coder"]
    clones = {name: Clone(getattr(given, name)) for name in ("click", "debug", "cursor") if getattr(given, name)}
    rows = []
    total = Sum()
    for letter, (where, task) in TASKS.items():
        if given.only and letter not in given.only.split(","):
            continue
        with tempfile.TemporaryDirectory() as folder:
            if where != "made" and where not in clones:
                continue
            root = clones[where].root if where in clones else made(Path(folder))
            try:
                found = worked(server, root, task(root), letter in given.show.split(","))
            finally:
                if where in clones:
                    clones[where].reset()
        rows.append(found.row(letter))
        for field in vars(total):
            setattr(total, field, getattr(total, field) + getattr(found, field))
    print("\n".join(["task calls  tokens  failures  wanted", *rows, total.row("all")]))
    if given.commander and "click" in clones:
        compare(server, clones["click"])


if __name__ == "__main__":
    main()
