"""The names a configuration may use: tools by group, and the tools of the compat profiles.

They stand apart from the catalogue so that a configuration is judged before any tool is imported.
A test compares the two.
"""

from collections.abc import Mapping
from types import MappingProxyType

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
"""Each group with its tools, in the order in which they are documented."""

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
"""The tools that a compat profile adds."""

KNOWN_TOOLS: Mapping[str, str] = MappingProxyType(
    {name: group for groups in (GROUPS, PROFILES) for group, names in groups.items() for name in names}
)
"""Every tool with its group; for the tool of a profile, the profile."""
