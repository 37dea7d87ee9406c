import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

import toolbox_mcp.tools
from tests.tables import each_row
from toolbox_mcp.server.config.names import KNOWN_TOOLS
from toolbox_mcp.tools.base import HINTS, Access, Tool
from toolbox_mcp.tools.catalogue import TOOLS

ROOT = Path(__file__).parents[1]

ACCESS = {
    "read_file": "read", "list_directory": "read", "tree": "read", "glob": "read", "grep_files": "read",
    "file_info": "read", "parse_ruby": "read", "code_outline": "read", "json_query": "read", "yaml_query": "read",
    "toml_query": "read", "csv_read": "read", "git_status": "read", "git_diff": "read", "git_log": "read",
    "git_show": "read", "git_blame": "read", "git_grep": "read", "git_branch": "read", "process_list": "read",
    "calculator": "read", "date_time": "read", "diff": "read", "todo_write": "state", "process_output": "state",
    "process_kill": "state", "web_fetch": "net", "web_search": "net", "gem": "net", "http_request": "net",
    "csv_write": "write", "git_add": "write", "git_commit": "write", "git_checkout": "write", "apply_patch": "write",
    "download_file": "write", "write_file": "write", "edit_file": "write", "multi_edit": "write",
    "edit_lines": "write", "replace_in_files": "write", "create_directory": "write", "move_file": "write",
    "delete_file": "write", "undo": "write", "bash": "exec", "shell": "exec", "run_script": "exec",
    "process_start": "exec", "process_input": "exec", "run_python": "exec", "run_ruby": "exec", "run_rust": "exec",
    "run_node": "exec", "run_tests": "exec", "python_tests": "exec", "lint": "exec", "bundle": "exec",
}  # fmt: skip
NOT_DESTRUCTIVE = {"create_directory", "git_add", "git_commit"}
IDEMPOTENT = {"create_directory", "write_file", "csv_write", "git_add", "download_file", "todo_write", "process_kill"}
UNSAFE = {"read_file", "write_file", "bash", "process_start", "web_fetch", "http_request"}

by_tool = each_row("tool", TOOLS)


def test_every_tool_there_is_stands_in_the_catalogue() -> None:
    found: dict[str, str] = {}
    for info in pkgutil.walk_packages(toolbox_mcp.tools.__path__, "toolbox_mcp.tools."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, Tool):
                found[value.name] = f"from toolbox_mcp.tools.{value.group}.{value.name} import {value.name}"
    missing = [line for name, line in found.items() if name not in {tool.name for tool in TOOLS}]
    assert not missing, "add to tools/catalogue.py: " + "; ".join(missing)


def test_the_catalogue_is_sorted_and_names_nothing_twice() -> None:
    names = [tool.name for tool in TOOLS]
    assert names == sorted(set(names))


@by_tool
def test_a_tool_has_the_access_and_group_of_the_contract(tool: Tool) -> None:
    assert tool.access == ACCESS[tool.name]
    assert tool.group == KNOWN_TOOLS[tool.name]


@by_tool
def test_a_tool_lies_in_a_file_of_its_name(tool: Tool) -> None:
    file = Path(inspect.getfile(inspect.unwrap(tool.run)))
    assert (file.stem, file.parent.name) == (tool.name, tool.group)


@by_tool
def test_all_four_annotations_are_sent_and_are_those_of_the_class(tool: Tool) -> None:
    told = tool.wire().annotations
    assert told is not None
    default = HINTS[tool.access]
    if tool.name == "http_request":
        assert (told.read_only_hint, told.destructive_hint, told.idempotent_hint, told.open_world_hint) == (
            False, True, False, True,
        )  # fmt: skip
        return
    assert told.read_only_hint is default.read_only_hint
    destructive = tool.name == "process_kill" or (default.destructive_hint and tool.name not in NOT_DESTRUCTIVE)
    assert told.destructive_hint is destructive
    assert told.idempotent_hint is (default.idempotent_hint or tool.name in IDEMPOTENT)
    assert told.open_world_hint is (default.open_world_hint or tool.name == "download_file")


@by_tool
def test_a_schema_is_an_object_without_noise(tool: Tool) -> None:
    schema = tool.wire().input_schema
    assert schema["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "$defs", "title", "$ref"} & schema.keys()
    assert '"title"' not in str(schema).replace("'", '"').replace('{"title": {', "")
    output = tool.wire().output_schema
    assert output is None or output["type"] == "object"


@by_tool
def test_a_description_is_short_and_speaks_to_someone_who_never_saw_the_repository(tool: Tool) -> None:
    assert 20 <= len(tool.description) <= 400
    assert re.match(r"[A-Z]", tool.description)
    assert tool.description.rstrip().endswith(".")


@by_tool
def test_only_the_tools_of_the_contract_take_unsafe(tool: Tool) -> None:
    assert ("unsafe" in tool.params.model_fields) == (tool.name in UNSAFE)


@by_tool
def test_every_parameter_that_names_a_place_has_a_guard(tool: Tool) -> None:
    guarded = {"path", "base", "source", "destination", "repo", "work_dir", "url", "command", "args"}
    params: type[BaseModel] = tool.params
    for name, field in params.model_fields.items():
        if name in guarded and not (tool.name, name) in {("shell", "command")}:
            assert "Guard" in repr(field), f"{tool.name}.{name} is not guarded"


def test_a_read_tool_cannot_ask_for_programs() -> None:
    from toolbox_mcp.tools.base import tool
    from toolbox_mcp.tools.results import Text
    from toolbox_mcp.tools.services import Programs

    with pytest.raises(TypeError, match="sneaky asks for Programs, so its access is exec, not read"):

        @tool(Access.READ)
        async def sneaky(programs: Programs) -> Text:
            """Run something."""
            raise NotImplementedError


@by_tool
def test_a_tool_has_a_test_file_of_its_own(tool: Tool) -> None:
    assert (ROOT / "tests" / "tools" / tool.group / f"test_{tool.name}.py").is_file()
