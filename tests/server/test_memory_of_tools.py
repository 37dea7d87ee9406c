"""No process of the server takes more than 512 MiB, whatever lies where a path leads."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

pytestmark = [pytest.mark.attack, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

SCRIPT = Path(sys.executable).with_name("toolbox-mcp")
MOST = 512 << 20
MANY = 100_000

FOLDERS = ["rules", "many", "sparse"]
BELOW_A_FOLDER = [
    ("list_directory", {"recursive": True}, "path"),
    ("tree", {"max_depth": 9}, "path"),
    ("glob", {"pattern": "**/*"}, "base"),
    ("glob", {"pattern": "**/*nowhere*"}, "base"),
    ("grep_files", {"pattern": "nowhere"}, "path"),
    ("grep_files", {"pattern": "x", "output": "count"}, "path"),
    ("grep_files", {"pattern": "no(?=where)"}, "path"),
    ("grep_files", {"pattern": r"no\nwhere"}, "path"),
    ("grep_files", {"match": "block", "query": ["nowhere"]}, "path"),
    ("grep_files", {"pattern": "nowhere", "target": "path"}, "path"),
    ("grep_files", {"pattern": "nowhere", "include_ignored": True}, "path"),
    ("replace_in_files", {"pattern": "nowhere", "replacement": "x"}, "path"),
    ("replace_in_files", {"pattern": "no(where)", "replacement": "x", "regex": True}, "path"),
    ("code_outline", {}, "path"),
    ("code_outline", {"query": "nowhere"}, "path"),
    ("file_info", {}, "path"),
    ("git_grep", {"pattern": "nowhere"}, "path"),
    ("git_diff", {}, "path"),
    ("git_add", {}, "paths"),
    ("git_log", {}, "path"),
    ("run_tests", {}, "path"),
    ("python_tests", {}, "path"),
    ("lint", {}, "path"),
    ("move_file", {"destination": "moved"}, "source"),
    ("move_file", {"source": "moved"}, "destination"),
]
FILES = [
    "sparse/big",
    "sparse/big.py",
    "sparse/big.csv",
    "sparse/big.png",
    "sparse/big.pdf",
    "sparse/big.json",
    "rules/.gitignore",
]
OF_A_FILE = [
    ("read_file", {}, "path"),
    ("read_file", {"start_line": 1000, "end_line": 1010}, "path"),
    ("read_file", {"tail": 10}, "path"),
    ("file_info", {}, "path"),
    ("grep_files", {"pattern": "nowhere"}, "path"),
    ("grep_files", {"pattern": "no(?=where)"}, "path"),
    ("grep_files", {"pattern": r"no\nwhere"}, "path"),
    ("grep_files", {"match": "block", "query": ["nowhere"]}, "path"),
    ("code_outline", {}, "path"),
    ("edit_file", {"old_string": "nowhere", "new_string": "x"}, "path"),
    ("edit_lines", {"operation": "replace", "match_lines": ["nowhere"], "lines": ["x"]}, "path"),
    ("multi_edit", {"edits": [{"old_string": "nowhere", "new_string": "x"}]}, "path"),
    ("json_query", {"query": "a"}, "path"),
    ("yaml_query", {"query": "a"}, "path"),
    ("toml_query", {"query": "a"}, "path"),
    ("csv_read", {}, "path"),
    ("csv_write", {"rows": [["x"]]}, "path"),
    ("parse_ruby", {}, "path"),
    ("run_script", {}, "path"),
    ("git_blame", {}, "path"),
    ("apply_patch", {"patch": "--- a/sparse/big\n+++ b/sparse/big\n@@ -1 +1 @@\n-x\n+y\n"}, None),
    ("write_file", {"content": "x"}, "path"),
    ("git_add", {}, "paths"),
    ("delete_file", {}, "path"),
    ("undo", {}, None),
]


@pytest.fixture
def hostile(project):
    for name in FOLDERS:
        (project / name).mkdir()
    with open(project / "rules/.gitignore", "w") as file:
        file.writelines(f"/a{number}*[x-z]/**/b{number}?\n" for number in range(300_000))
    for number in range(300):
        (project / f"rules/{number}").mkdir()
        (project / f"rules/{number}/.gitignore").write_text("".join(f"x{number}*{line}?/**/y\n" for line in range(200)))
        (project / f"rules/{number}/f.py").write_text("x = 1\n")
    for number in range(MANY):
        os.close(os.open(project / f"many/{number}.py", os.O_CREAT | os.O_WRONLY))
    for file in FILES[:-1]:
        with open(project / file, "wb") as big:
            big.write(
                {".png": b"\x89PNG\r\n\x1a\n", ".pdf": b"%PDF-1.7\n", ".json": b"["}.get(Path(file).suffix, b"a,b\n")
            )
            big.truncate(10 << 30)
    with open(project / "sparse/line.py", "w") as file:
        file.write("x" * (600 << 20))
    return project


def descendants():
    """Return the processes below this one with their names and the most memory that each has taken, in bytes."""
    parents, most = {}, {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = dict(
                line.split(":\t", 1) for line in Path(f"/proc/{entry}/status").read_text().splitlines() if ":\t" in line
            )
        except OSError:
            continue
        parents[int(entry)] = int(fields["PPid"])
        most[int(entry)] = (fields["Name"], int(fields.get("VmHWM", "0 kB").split()[0]) << 10)
    found = {}
    for pid in parents:
        above = pid
        while above := parents.get(above, 0):
            if above == os.getpid():
                found[pid] = most[pid]
                break
    return found


@asynccontextmanager
async def watched():
    """Collect the peaks of all processes below this one while the block lasts: by name, the largest."""
    peaks = {}

    def look():
        for name, size in descendants().values():
            peaks[name] = max(size, peaks.get(name, 0))

    async def watch():
        while True:
            await asyncio.to_thread(look)
            await asyncio.sleep(0.02)

    task = asyncio.create_task(watch())
    try:
        yield peaks
    finally:
        task.cancel()
        await asyncio.to_thread(look)


async def test_the_watch_sees_what_a_process_took(project):
    hungry = "x = bytearray(600 << 20); x[::4096] = b'1' * len(x[::4096]); print(flush=True); input()"
    pipe = asyncio.subprocess.PIPE
    async with watched() as peaks:
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", hungry, stdin=pipe, stdout=pipe)
        assert child.stdout
        with anyio.fail_after(30):
            await child.stdout.readline()
    await child.communicate(b"\n")
    assert max(peaks.values()) > MOST


async def test_no_tool_takes_more_than_512_mib(hostile, tmp_path):
    (tmp_path / "home").mkdir()
    server = StdioServerParameters(
        command=str(SCRIPT),
        args=["--root", str(hostile), "--preset", "coder", "--set", "max_tool_timeout=60"],
        env={"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]},
        cwd=str(hostile),
    )
    calls = [(name, given, key, place) for place in [*FOLDERS, "."] for name, given, key in BELOW_A_FOLDER]
    calls += [(name, given, key, place) for place in FILES for name, given, key in OF_A_FILE]
    failed = []
    async with Client(server) as client, watched() as peaks:
        known = {tool.name for tool in (await client.list_tools()).tools}
        for name, given, key, place in calls:
            if name not in known:
                continue
            arguments = given if key is None else {key: [place] if key == "paths" else place, **given}
            peaks.clear()
            with anyio.fail_after(100):
                await client.call_tool(name, arguments)
            # A peak stays with a process, so the first call that reaches it is named, and those behind it.
            failed += [(name, arguments, process, size >> 20) for process, size in peaks.items() if size > MOST]
    assert failed == []
