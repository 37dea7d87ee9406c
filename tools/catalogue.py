"""Every tool there is, by group: the only list. A configuration is judged by these names before any tool is imported."""

from collections.abc import Mapping
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

KNOWN_TOOLS: Mapping[str, str] = MappingProxyType({name: group for group, names in GROUPS.items() for name in names})
"""The group of each tool."""


def load_tools() -> tuple["Tool", ...]:
    """Return every tool, sorted by name. Imports all of them."""
    return tuple(
        getattr(import_module(f".{group}.{name}", __package__), name) for name, group in sorted(KNOWN_TOOLS.items())
    )
