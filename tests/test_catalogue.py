import inspect
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

import toolbox_mcp.tools
from toolbox_mcp.tools.base import Access
from toolbox_mcp.tools.catalogue import GROUPS, KNOWN_TOOLS, PROFILES, load_tools

ROOT = Path(__file__).parents[1]
TOOLS = load_tools()
EVERY = {tool.name: tool for profile in ("", *PROFILES) for tool in load_tools(profile)}.values()
"""The tools of the compat profiles, too."""


def test_a_file_of_a_group_without_an_underscore_is_a_tool_and_stands_in_the_catalogue() -> None:
    folder = Path(toolbox_mcp.tools.__path__[0])
    groups = {**GROUPS, **PROFILES}
    files = {group: {file.stem for file in (folder / group).glob("[!_]*.py")} for group in groups}
    assert files == {group: set(names) for group, names in groups.items()}
    assert len(KNOWN_TOOLS) == sum(map(len, GROUPS.values()))


def test_a_tool_has_the_name_and_group_of_its_file_and_a_test_file_of_its_own() -> None:
    failed = []
    for tool in TOOLS:
        file = Path(inspect.getfile(inspect.unwrap(tool.run)))
        if (file.stem, file.parent.name, tool.group) != (tool.name, tool.group, KNOWN_TOOLS[tool.name]):
            failed.append(f"{file}: {tool.name} of {tool.group}")
        if not (ROOT / "tests" / "tools" / tool.group / f"test_{tool.name}.py").is_file():
            failed.append(f"tests/tools/{tool.group}/test_{tool.name}.py is missing")
    assert failed == []


def test_all_four_annotations_are_sent_and_only_what_changes_nothing_is_read_only() -> None:
    failed = []
    for tool in EVERY:
        told = tool.to_mcp().annotations
        assert told is not None
        sent = (told.read_only_hint, told.destructive_hint, told.idempotent_hint, told.open_world_hint)
        if None in sent or (told.read_only_hint and tool.access not in (Access.READ, Access.NET)):
            failed.append((tool.name, sent))
    assert failed == []


def test_a_schema_is_an_object_without_noise() -> None:
    failed = []
    for tool in EVERY:
        schema, output = tool.to_mcp().input_schema, tool.to_mcp().output_schema
        noise = {"anyOf", "oneOf", "allOf", "$defs", "title", "$ref"} & schema.keys()
        if noise or schema["type"] != "object" or (output and output["type"] != "object"):
            failed.append((tool.name, noise))
    assert failed == []


def test_a_description_is_short_and_made_of_sentences() -> None:
    assert [
        tool.name
        for tool in EVERY
        if not (20 <= len(tool.description) <= 400 and re.match(r"[A-Z].*\.\Z", tool.description, re.DOTALL))
    ] == []


def test_every_parameter_that_names_a_place_has_a_guard() -> None:
    guarded = {"path", "paths", "base", "source", "destination", "repo", "work_dir", "url", "command", "args"}
    guarded |= {"root", "workDir", "trashDir", "env"}
    judged_by_settings = {("shell", "command"), ("terminal", "command")}
    failed = []
    for tool in EVERY:
        params: type[BaseModel] = tool.params
        for name, field in params.model_fields.items():
            if name in guarded and "Guard" not in repr(field) and (tool.name, name) not in judged_by_settings:
                failed.append(f"{tool.name}.{name}")
    assert failed == []


def test_a_read_tool_cannot_ask_for_programs() -> None:
    from toolbox_mcp.tools.base import tool
    from toolbox_mcp.tools.results import Text
    from toolbox_mcp.tools.services import Programs

    with pytest.raises(TypeError, match="sneaky asks for Programs, so its access is exec, not read"):

        @tool(Access.READ)
        async def sneaky(programs: Programs) -> Text:
            """Run something."""
            raise NotImplementedError
