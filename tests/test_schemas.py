import json
import os
from pathlib import Path

import pytest

from toolbox_mcp.tools.base import Tool
from toolbox_mcp.tools.catalogue import load_tools

TOOLS = load_tools()

SCHEMAS = Path(__file__).parent / "schemas"


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_clients_see_what_was_reviewed(tool: Tool) -> None:
    """A changed file here is a changed interface. UPDATE_SCHEMAS=1 rewrites it."""
    wire = tool.to_mcp().model_dump(by_alias=True, exclude_none=True, mode="json")
    seen = json.dumps({"access": tool.access, **wire}, indent=2) + "\n"
    file = SCHEMAS / f"{tool.name}.json"
    if os.environ.get("UPDATE_SCHEMAS"):
        file.write_text(seen, encoding="utf-8")
    assert seen == file.read_text(encoding="utf-8")


def test_no_snapshot_is_left_of_a_tool_that_is_gone() -> None:
    assert {file.stem for file in SCHEMAS.glob("*.json")} == {tool.name for tool in TOOLS}
