"""What a walk or a search could not see is said in its answer, so that "no matches" is true."""

import os
import shutil
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

SCRIPT = Path(sys.executable).with_name("toolbox-mcp")
FILLER = b"x\n" * (5 << 19)


@pytest.fixture
def unreadable(project):
    """Return a project in which a folder and a file, each with a hit, may not be read."""
    for folder in ("locked", "open"):
        (project / folder).mkdir()
        (project / folder / "f.py").write_text("def hit(): pass\n")
    (project / "shut.py").write_text("def hit(): pass\n")
    (project / "shut.py").chmod(0)
    (project / "locked").chmod(0)
    yield project
    (project / "locked").chmod(0o700)


FOLDER, FILE = "... (could not be read: locked)", "... (could not be read: shut.py)"
BOTH = "... (could not be read: locked, shut.py)"
SEARCHED = "no matches for {} in what was searched"

UNREADABLE = [
    ("grep_files", {"pattern": "hit"}, f"open/f.py:1: def hit(): pass\n{BOTH}"),
    ("grep_files", {"pattern": "nowhere"}, f"{SEARCHED.format('nowhere')}\n{BOTH}"),
    ("grep_files", {"pattern": "hit", "output": "count"}, f"open/f.py: 1\n{BOTH}"),
    ("grep_files", {"pattern": "hit", "output": "files"}, f"open/f.py\n{BOTH}"),
    ("grep_files", {"pattern": "def hit(?!x)"}, f"open/f.py:1: def hit(): pass\n{BOTH}"),
    ("grep_files", {"match": "block", "query": ["def hit(): pass"], "output": "files"}, f"open/f.py\n{BOTH}"),
    ("grep_files", {"pattern": "py", "target": "path"}, f"open/f.py\nshut.py\n{FOLDER}"),
    ("grep_files", {"pattern": "hit", "path": "open"}, "open/f.py:1: def hit(): pass"),
    ("glob", {"pattern": "*.py"}, f"open/f.py\nshut.py\n{FOLDER}"),
    ("glob", {"pattern": "*.rb"}, f"{SEARCHED.format('*.rb')}\n{FOLDER}"),
    ("tree", {}, f"project/\n  locked/\n  open/\n    f.py\n  shut.py\n{FOLDER}"),
    ("list_directory", {"recursive": True, "pattern": "*.rb"}, f"no matches for *.rb; 4 entries\n{FOLDER}"),
    ("code_outline", {"query": "hit"}, f"open/f.py:1: function hit\n{FOLDER}\n{FILE}"),
    ("code_outline", {"query": "nowhere"}, f"no definitions found in .\n{FOLDER}\n{FILE}"),
    (
        "replace_in_files",
        {"pattern": "nowhere", "replacement": "x"},
        f"no matches for nowhere\n... (1 file(s) left as they are: not readable)\n{FOLDER}",
    ),
]


@pytest.mark.slow
async def test_what_may_not_be_read_is_named(unreadable, tmp_path):
    (tmp_path / "home").mkdir()
    command = [str(SCRIPT), "--root", str(unreadable), "--preset", "editor"]
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        assert setpriv
        # Without these, the modes of files hold for root as for everybody.
        command = [setpriv, "--bounding-set=-dac_override,-dac_read_search", *command]
    env = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    failed = []
    with anyio.fail_after(60):
        async with Client(StdioServerParameters(command=command[0], args=command[1:], env=env)) as client:
            for name, arguments, wanted in UNREADABLE:
                result = await client.call_tool(name, arguments)
                told = getattr(result.content[0], "text", "")
                if told != wanted:
                    failed.append((name, arguments, told))
    assert failed == []


ABOVE = "... (above 5 MiB, not searched: big.py)"
LARGE = [
    ("grep_files", {"pattern": "hit"}, f"{SEARCHED.format('hit')}\n{ABOVE}"),
    ("grep_files", {"pattern": "def hit(?!x)"}, f"{SEARCHED.format('def hit(?!x)')}\n{ABOVE}"),
    ("grep_files", {"match": "block", "query": ["def hit(): pass"]}, f"{SEARCHED.format('def hit(): pass')}\n{ABOVE}"),
    (
        "grep_files",
        {"pattern": r"hit\(\): pass\nx"},
        f"{SEARCHED.format(chr(92).join(['hit', '(', '): pass', 'nx']))}\n{ABOVE}",
    ),
    ("grep_files", {"pattern": "big", "target": "path"}, "big.bin\nbig.py"),
    ("grep_files", {"pattern": "hit", "glob": "*.bin"}, "no matches for hit"),
    ("code_outline", {"query": "hit"}, "no definitions found in .\n... (above 5 MiB: big.py)"),
    (
        "replace_in_files",
        {"pattern": "hit", "replacement": "x"},
        "no matches for hit\n... (1 file(s) left as they are: above 5 MiB)",
    ),
]


async def test_text_files_that_are_too_large_are_named_and_binary_ones_are_not(call, project):
    (project / "big.py").write_bytes(b"def hit(): pass\n" + FILLER)
    (project / "big.bin").write_bytes(b"\0hit\n" + FILLER)
    failed = []
    for name, arguments, wanted in LARGE:
        told = await call(name, **arguments)
        if told != wanted:
            failed.append((name, arguments, told))
    assert failed == []


async def test_many_are_named_in_part(call, project):
    for number in range(7):
        (project / f"{number}").write_bytes(b"hit\n" + FILLER)
    told = await call("grep_files", pattern="hit")
    assert told.split("\n")[1:] == ["... (above 5 MiB, not searched: 0, 1, 2, 3, 4 and 2 more)"]
