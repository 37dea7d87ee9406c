import os
import subprocess
import sys
from pathlib import PurePosixPath

import anyio
import pytest

from toolbox_mcp.sandbox import large_files
from toolbox_mcp.sandbox.large_files import LargeFiles, Watch, largest_open
from toolbox_mcp.sandbox.process.streaming import stream

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what a program holds open")

ENV = {"PATH": "/usr/bin:/bin"}


def holding(*files):
    """Return a program that opens files, tells when it has, and waits for ever."""
    opened = " ".join(f"exec {number}<{file};" for number, file in enumerate(files, 3))
    return ["/bin/sh", "-c", f"{opened} echo ready; mkfifo wait; read line <>wait"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "small").write_bytes(b"x" * 100)
    (tmp_path / "large").write_bytes(b"x" * 101)
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 2**40)
    return tmp_path


@linux
@pytest.mark.parametrize(
    ("files", "size"),
    [([], 0), (["small"], 100), (["small", "large"], 101), (["sparse"], 2**40), (["."], 0), (["/dev/zero"], 0)],
)
async def test_the_largest_file_that_a_process_holds_open_is_told(folder, files, size):
    async with stream(holding(*files), cwd=folder, env=ENV, timeout=20) as run:
        async for _ in run.lines():
            break
        assert largest_open(run.pid) == size


@linux
def test_of_what_is_not_shown_nothing_is_told_and_a_dead_process_holds_nothing(folder, monkeypatch):
    with subprocess.Popen(["/bin/true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        shown = os.listdir

        def hidden(path):
            raise PermissionError(path)

        monkeypatch.setattr(large_files.os, "listdir", hidden)
        assert largest_open(process.pid) == 0
        assert largest_open(os.getpid()) is None
        monkeypatch.setattr(large_files.os, "listdir", shown)
    assert largest_open(process.pid) == 0


@linux
@pytest.mark.parametrize("file", ["large", "sparse"])
async def test_a_program_that_holds_a_large_file_open_is_ended(folder, file):
    with anyio.fail_after(10):
        async with stream(holding("small", file), cwd=folder, env=ENV, timeout=20) as run:
            with Watch(run, 100) as watch:
                assert [line async for line in run.lines()] == [b"ready"]
                assert (await run.wait()).signal == 9
    assert watch.met


@linux
async def test_a_program_that_opens_a_large_file_late_is_ended(folder):
    program = ["/bin/sh", "-c", "echo ready; read line; exec 3<large; mkfifo wait; read line <>wait"]
    with anyio.fail_after(10):
        async with stream(program, cwd=folder, env=ENV, timeout=20, stdin=b"go\n") as run:
            with Watch(run, 100) as watch:
                assert [line async for line in run.lines()] == [b"ready"]
    assert watch.met


@linux
@pytest.mark.parametrize(("told", "met"), [([None, None], True), ([None, 0, None, 0, 7], False)])
async def test_a_program_whose_files_stay_hidden_is_ended(folder, monkeypatch, told, met):
    looks = iter(told)
    over = anyio.Event()

    def look(pid):
        size = next(looks)
        if size == 7:
            over.set()
        return size

    monkeypatch.setattr(large_files, "largest_open", look)
    with anyio.fail_after(10):
        async with stream(holding("small"), cwd=folder, env=ENV, timeout=20) as run:
            with Watch(run, 100) as watch:
                if met:
                    assert [line async for line in run.lines()] in ([], [b"ready"])
                else:
                    await over.wait()
    assert watch.met == met


@linux
async def test_a_program_with_small_files_is_let_be(folder, monkeypatch):
    looks = []
    enough = anyio.Event()

    def look(pid):
        looks.append(largest_open(pid))
        if len(looks) == 3:
            enough.set()
        return looks[-1]

    monkeypatch.setattr(large_files, "largest_open", look)
    with anyio.fail_after(10):
        async with stream(holding("small"), cwd=folder, env=ENV, timeout=20) as run:
            async for _ in run.lines():
                break
            with Watch(run, 100) as watch:
                await enough.wait()
            assert not watch.met
            assert looks[-1] == 100


def test_a_folder_above_one_with_a_large_file_holds_it_too(monkeypatch):
    large = LargeFiles()
    large.add(PurePosixPath("/a/b/c"))
    asked = ["/", "/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/x", "/a/b/cc"]
    assert [path for path in asked if PurePosixPath(path) in large] == ["/", "/a", "/a/b", "/a/b/c"]
    monkeypatch.setattr(large_files, "_MOST", 4)
    large.add(PurePosixPath("/x"))
    assert [path for path in [*asked, "/x"] if PurePosixPath(path) in large] == ["/", "/x"]
