"""What a call replaces is freed after its answer, and its folder synced, by the thread that replaced it."""

import os
import stat
import threading

import anyio
import pytest

from toolbox_mcp.safety.writes import atomic
from toolbox_mcp.tools.blocking import WorkContext


@pytest.fixture
def closed(monkeypatch):
    """Count the descriptors that calls let go of, and tell when so many are closed."""
    monkeypatch.setattr(atomic, "_SPARE_BYTES", 0)
    let_go, close = WorkContext.let_go, os.close
    waiting: set[int] = set()
    over = threading.Semaphore(0)

    def noted(turn, fd):
        waiting.add(fd)
        let_go(turn, fd)

    def done(fd):
        mine = fd in waiting
        waiting.discard(fd)
        close(fd)
        if mine:
            over.release()

    monkeypatch.setattr(WorkContext, "let_go", noted)
    monkeypatch.setattr(os, "close", done)

    async def wait(count):
        for _ in range(count):
            assert await anyio.to_thread.run_sync(lambda: over.acquire(timeout=10))
        assert not waiting
        assert not over.acquire(blocking=False)

    return wait


replacing = pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("edit_file", {"old_string": "old", "new_string": "new"}),
        ("multi_edit", {"edits": [{"old_string": "old", "new_string": "new"}]}),
        ("edit_lines", {"operation": "replace", "match_lines": ["old"], "lines": ["new"]}),
        ("write_file", {"content": "new\n"}),
    ],
)


@replacing
async def test_every_tool_that_replaces_a_file_lets_go_of_the_old_one(call, project, closed, tool, arguments):
    (project / "f").write_text("old\n")
    await call(tool, path="f", **arguments)
    assert (project / "f").read_text() == "new\n"
    await closed(1)


@replacing
async def test_every_tool_that_replaces_a_file_answers_before_its_folder_is_synced(
    call, project, monkeypatch, tool, arguments
):
    (project / "f").write_text("old\n")
    answered, over = threading.Event(), threading.Event()
    sync, synced = os.fsync, []

    def noted(fd):
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            assert (project / "f").read_text() == "old\n"
            sync(fd)
            return
        assert answered.wait(10)
        synced.append(os.path.samestat(os.fstat(fd), project.stat()))
        over.set()

    monkeypatch.setattr(os, "fsync", noted)
    await call(tool, path="f", **arguments)
    assert (project / "f").read_text() == "new\n"
    assert os.listdir(project) == ["f"]
    assert synced == []
    answered.set()
    assert await anyio.to_thread.run_sync(over.wait, 10)
    assert synced == [True]


async def test_sixty_four_edits_at_once_leave_no_descriptor_behind(call, project, closed):
    for number in range(64):
        (project / f"f{number}").write_text("old")
    await call("edit_file", path="f0", old_string="old", new_string="older")
    await closed(1)
    before = len(os.listdir("/dev/fd"))
    async with anyio.create_task_group() as group:
        for number in range(64):
            edit = {"path": f"f{number}", "old_string": "old", "new_string": "new"}
            group.start_soon(call.result, "edit_file", edit)
    await closed(64)
    assert [(project / f"f{number}").read_text()[:3] for number in range(64)] == ["new"] * 64
    assert len(os.listdir("/dev/fd")) == before


async def test_a_refused_edit_holds_nothing(call, project, closed):
    (project / "f").write_text("old")
    for arguments in ({"old_string": "x", "new_string": "y"}, {"old_string": "old", "new_string": "old"}):
        assert (await call("edit_file", path="f", **arguments))["code"] in ("no_match", "no_change")
    await closed(0)
