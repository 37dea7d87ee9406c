"""Every tool there is, by group: the only list. A configuration is judged by these names before any tool is imported."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import Tool

GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "read": ("read_file", "list_directory", "tree", "glob", "grep_files", "file_info"),
        "code": ("parse_ruby", "code_outline"),
        "data": ("json_query", "yaml_query", "toml_query", "csv_read", "csv_write"),
        "edit": (
            "write_file",
            "edit_file",
            "multi_edit",
            "edit_lines",
            "replace_in_files",
            "create_directory",
            "move_file",
            "delete_file",
            "undo",
        ),
        "git": (
            "git_status",
            "git_diff",
            "git_log",
            "git_show",
            "git_blame",
            "git_grep",
            "git_branch",
            "git_add",
            "git_commit",
            "git_checkout",
            "apply_patch",
        ),
        "web": ("web_fetch", "web_search", "http_request", "download_file", "gem"),
        "command": ("bash", "shell", "run_script"),
        "process": ("process_start", "process_output", "process_input", "process_list", "process_kill"),
        "sandbox": ("run_python", "run_ruby", "run_rust", "run_node"),
        "verify": ("run_tests", "python_tests", "lint", "bundle"),
        "util": ("calculator", "date_time", "diff", "todo_write"),
    }
)
"""Each group with its tools, in the order in which they are documented. `tools/GROUP/NAME.py` holds the tool NAME."""

PROFILES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "orbiter": ("filesystem", "terminal"),
        "llmtools": (
            "readfile",
            "writefile",
            "deletefile",
            "searchfiles",
            "listdirectory",
            "statpath",
            "mimeforpath",
            "mimeforextension",
            "readimage",
            "readtextrange",
            "findtext",
            "inserttextlines",
            "replacetextlines",
            "deletetextlines",
            "shellcommand",
            "runscript",
        ),
    }
)
"""The tools of each compat profile, which are there beside the others where the profile is chosen. Files as above."""

KNOWN_TOOLS: Mapping[str, str] = MappingProxyType({name: group for group, names in GROUPS.items() for name in names})
"""The group of each tool."""


ALIASES: Mapping[tuple[str, str], Mapping[str, str]] = MappingProxyType(
    {("llmtools", "shell"): {"executeParallel": "continue_on_error"}}
)
"""By profile and tool, arguments that the tool takes under the name that its clients know (TOOLS.md §9)."""


def load_tools(profile: str = "") -> tuple["Tool", ...]:
    """Return every tool, and those of a compat profile, sorted by name. Imports all of them."""
    wanted = {**KNOWN_TOOLS, **dict.fromkeys(PROFILES.get(profile, ()), profile)}
    tools = [getattr(import_module(f".{group}.{name}", __package__), name) for name, group in sorted(wanted.items())]
    return tuple(replace(tool, aliases=ALIASES.get((profile, tool.name), {})) for tool in tools)
