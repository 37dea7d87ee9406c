"""The tools for programs that embed them without MCP."""

import json
import re
from pathlib import Path

import pytest

import toolbox_mcp
from toolbox_mcp import Access, Code, ConfigError, Registry, Text, ToolError, tool

DOCS = Path(__file__).parents[2] / "docs" / "library.md"
QUIET = {"records": False}


@tool(Access.READ)
async def shout(text: str) -> Text:
    """Return a text in capitals."""
    return Text(text.upper())


async def test_the_example_of_the_docs_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = tmp_path / "root"
    root.mkdir()
    found = {"__name__": "example"}
    exec(re.search(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)[1], found)
    read, shouted, refused = await found["main"](str(root))
    assert (read, shouted) == ("hello", "HELLO")
    assert json.loads(refused)["code"] == "path_denied"


async def test_what_is_listed_is_a_copy_and_sorted(tmp_path):
    async with Registry(tmp_path, env={"PATH": "/usr/bin:/bin"}, **QUIET) as registry:
        names = [entry.name for entry in registry.tools()]
        assert names == sorted(names) and "bash" not in names and "read_file" in names
        registry.tools()[0].description = "changed"
        assert registry.tools()[0].description != "changed"
        assert registry.lookup("bash") is not None
        with pytest.raises(ToolError) as unknown:
            await registry.call("nope")
        assert unknown.value.code is Code.NOT_FOUND


async def test_a_call_has_a_timeout_of_its_own(tmp_path):
    settings = {"enable_exec_tools": True, "allowed_commands": ["sleep"]}
    async with Registry(tmp_path, env={"PATH": "/usr/bin:/bin"}, **settings, **QUIET) as registry:
        result = await registry.call("bash", {"command": "sleep", "args": ["60"]}, timeout=0.2)
        assert result.structured_content["code"] == "timeout"


def test_a_wrong_setting_and_a_name_that_is_taken_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="presett"):
        Registry(tmp_path, presett="coder")

    @tool(Access.READ)
    async def read_file() -> Text:
        """Take a name."""
        return Text("")

    with pytest.raises(ValueError, match="there is a tool read_file already"):
        Registry(tmp_path, tools=[read_file])


async def test_a_registry_that_is_not_open_says_so(tmp_path):
    with pytest.raises(RuntimeError, match="async with"):
        Registry(tmp_path, **QUIET).tools()


def test_the_package_has_one_face():
    assert set(toolbox_mcp.__all__) == {"Access", "Code", "ConfigError", "Registry", "Text", "ToolError", "tool"}
    with pytest.raises(AttributeError):
        _ = toolbox_mcp.nothing
