"""A real client of the command itself: changes are taken back, listed and brought again by the text of answers alone."""

import re
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

SCRIPT = Path(sys.executable).with_name("toolbox-mcp")


@pytest.mark.slow
async def test_edit_undo_by_id_and_list(project, tmp_path):
    (project / "a.txt").write_text("one\n")
    (project / "b.txt").write_text("one\n")
    (tmp_path / "home").mkdir()
    server = StdioServerParameters(
        command=str(SCRIPT),
        args=["--root", str(project), "--preset", "editor"],
        env={"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"},
    )
    with anyio.fail_after(60):
        async with Client(server) as client, Client(server) as other:

            async def text(name, on=client, **arguments):
                result = await on.call_tool(name, arguments)
                assert result.structured_content is None or result.is_error
                block = result.content[-1]
                assert isinstance(block, TextContent)
                return block.text

            first = await text("edit_file", path="a.txt", old_string="one", new_string="two")
            second = await text("replace_in_files", pattern="one", replacement="three")
            assert first.endswith(" [undo: c1]") and second.endswith(" [undo: c2]")
            assert '"not_found"' in await text("undo", on=other, id="c1")
            assert await text("undo", on=other, list=True) == "(no changes)"

            assert await text("undo", id="c1") == "Undid edit_file (c1): restored a.txt [undo: c3]"
            rows = re.sub(r"\t\d+ s ago\t", "\t", await text("undo", list=True)).split("\n")
            assert rows == [
                "c3\tundo\ta.txt\tcan be undone",
                "c2\treplace_in_files\tb.txt\tcan be undone",
                "c1\tedit_file\ta.txt\tundone",
            ]
            assert await text("undo", id="c3") == "Undid undo (c3): restored a.txt [undo: c4]"
            assert await text("undo") == "Undid replace_in_files (c2): restored b.txt [undo: c5]"
    assert [(project / name).read_text() for name in ("a.txt", "b.txt")] == ["two\n", "one\n"]
