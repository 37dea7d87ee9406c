"""Edits leave no descriptor open."""

import os

import anyio


async def test_sixty_four_edits_at_once_leave_no_descriptor_behind(call, project):
    for number in range(64):
        (project / f"f{number}").write_text("old")
    await call("edit_file", path="f0", old_string="old", new_string="older")
    before = len(os.listdir("/dev/fd"))
    async with anyio.create_task_group() as group:
        for number in range(64):
            edit = {"path": f"f{number}", "old_string": "old", "new_string": "new"}
            group.start_soon(call.result, "edit_file", edit)
    assert [(project / f"f{number}").read_text()[:3] for number in range(64)] == ["new"] * 64
    assert len(os.listdir("/dev/fd")) == before
