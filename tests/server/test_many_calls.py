import os
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from mcp import Client, StdioServerParameters

from toolbox_mcp.sandbox.process.tree import descendants

SCRIPT = Path(sys.executable).with_name("toolbox-mcp")

CALLS = [
    ("read_file", {"path": "a.txt"}, None),
    ("read_file", {"path": "a.txt", "tail": 1}, None),
    ("list_directory", {}, None),
    ("tree", {}, None),
    ("glob", {"pattern": "**/*.txt"}, None),
    ("grep_files", {"pattern": "line"}, None),
    ("grep_files", {"pattern": "(?<=l)ine"}, None),
    ("diff", {"a": "x\n", "b": "y\n"}, None),
    ("calculator", {"expression": "1 + 1"}, None),
    ("edit_file", {"path": "missing", "old_string": "a", "new_string": "b"}, "not_a_file"),
    ("write_file", {"path": "b.txt", "content": "x"}, None),
    ("bash", {"command": "true"}, None),
    ("bash", {"command": "rm"}, "command_denied"),
    ("read_file", {"path": "../outside"}, "path_denied"),
]


def processes_of(pid: int) -> set[int]:
    return {found.pid for found in descendants(pid) if not found.dead}


def open_descriptors(pids: set[int]) -> int:
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_hundreds_of_calls_leave_no_error_descriptor_or_process(project, tmp_path):
    (project / "a.txt").write_text("line one\nline two\n")
    parameters = StdioServerParameters(
        command=str(SCRIPT),
        args=["--root", str(project), "--enable-exec", "--allow-command", "true"],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )

    before = processes_of(os.getpid())
    async with Client(parameters) as client:

        async def one(number: int) -> None:
            name, arguments, expected = CALLS[number % len(CALLS)]
            result = await client.call_tool(name, dict(arguments))
            code = (result.structured_content or {})["code"] if result.is_error else None
            assert code == expected, (name, result.structured_content)

        with anyio.fail_after(120):
            for number in range(len(CALLS) * 2):
                await one(number)
            server = processes_of(os.getpid()) - before
            held = open_descriptors(server)
            for number in range(500):
                await one(number)
            async with anyio.create_task_group() as group:
                for number in range(200):
                    group.start_soon(one, number)
        after = processes_of(os.getpid()) - before
        # The worker may run two processes where one was enough at first.
        assert len(after) <= len(server) + 1
        assert open_descriptors(after & server) <= held + 4
    with anyio.fail_after(5):
        while processes_of(os.getpid()) - before:
            await anyio.lowlevel.checkpoint()
