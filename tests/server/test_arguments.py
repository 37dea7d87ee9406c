import contextlib
import tracemalloc

import pytest

from tests.tables import each_row
from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.guard import GuardContext
from toolbox_mcp.safety.path_jail.roots import Roots
from toolbox_mcp.safety.policy import Policy
from toolbox_mcp.server.call.arguments import Binder
from toolbox_mcp.tools.catalogue import load_tools

TOOLS = load_tools()


@each_row(
    ("name", "arguments", "hint"),
    [
        ("read_file", {"file": "a"}, "did you mean path?"),
        ("read_file", {"path": "a", "offset": 5}, "did you mean start_line?"),
        ("read_file", {"path": "a", "limit": 5}, "did you mean end_line?"),
        ("git_log", {"limit": 5}, "did you mean count?"),
        ("read_file", {"path": "a", "cwd": "b"}, "known: path, paths, start_line, end_line, start_char, tail, start_match, end_match, numbered, encoding, unsafe"),
        ("glob", {"pattern": "*", "path": "src"}, "did you mean base?"),
        ("grep_files", {"regex": "a"}, "did you mean pattern?"),
        ("grep_files", {"pattern": "a", "-i": True}, "did you mean ignore_case?"),
        ("grep_files", {"pattern": "a", "-A": 3}, "did you mean after?"),
        ("grep_files", {"pattern": "a", "include": "*.py"}, "did you mean glob?"),
        ("grep_files", {"pattern": "a", "directory": "src"}, "did you mean path?"),
        ("write_file", {"path": "a", "text": "x"}, "did you mean content?"),
        ("edit_file", {"path": "a", "old_str": "x", "new_str": "y"}, "did you mean old_string?"),
        ("replace_in_files", {"search": "a", "replace": "b"}, "did you mean pattern?"),
        ("move_file", {"from": "a", "to": "b"}, "did you mean source?"),
        ("bash", {"cmd": "ls"}, "did you mean command?"),
        ("process_kill", {"pid": 5}, "did you mean id?"),
        ("process_list", {"all": True}, "it takes no arguments"),
        ("run_python", {"script": "1"}, "did you mean code?"),
        ("tree", {"Depth": 2}, "did you mean max_depth?"),
    ],
)  # fmt: skip
async def test_the_name_that_another_server_has_for_it_is_understood(call, name, arguments, hint):
    answer = await call(name, **arguments)
    assert (answer["code"], answer["hint"]) == ("invalid_args", hint)


@each_row(
    ("name", "arguments", "hint"),
    [
        ("bash", {"command": "git", "args": "commit -m 'one thing'"}, 'such as ["commit", "-m", "one thing"]'),
        ("process_start", {"command": "git", "args": "log 'open"}, 'such as ["log \'open"]'),
        ("edit_lines", {"path": "a", "operation": "insert", "lines": "two words"}, 'such as ["two words"]'),
    ],
)
async def test_a_string_for_a_list_is_answered_with_the_list_that_was_meant(call, name, arguments, hint):
    answer = await call(name, **arguments)
    assert (answer["code"], answer["hint"]) == ("invalid_args", hint)


@each_row(
    ("name", "arguments", "error"),
    [
        ("grep_files", {"query": [0] * 100_000}, "query.0: expected a string, got a number"),
        ("shell", {"env": {f"V{n}": [] for n in range(100_000)}}, "env.V0: expected a string, got a list"),
        ("read_file", {f"x{n}": 0 for n in range(100_000)}, "x0: no such argument"),
    ],
)
def test_of_many_arguments_that_do_not_fit_only_the_first_takes_memory(name, arguments, error):
    tool = next(each for each in TOOLS if each.name == name)
    binder = Binder(tool)
    tracemalloc.start()
    try:
        with pytest.raises(ToolError) as refused:
            binder.bind(arguments, GuardContext(Policy(roots=None)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (str(refused.value.code), refused.value.error) == ("invalid_args", error)
    # Room for a copy of the arguments; a kilobyte for each item would be 100 MB.
    assert peak < 20_000_000


REQUIRED = {
    "command": "echo",
    "url": "http://example.com/",
    "rows": [["a"]],
    "patch": "*** Begin Patch\n*** Add File: a\n+a\n*** End Patch",
    "edits": [{"old_string": "a", "new_string": "b"}],
    "todos": [{"content": "a", "status": "pending"}],
}
PLAIN = {"string": "a", "array": ["a"], "integer": 1, "number": 1, "boolean": True, "object": {}}


def required(tool):
    """Return arguments that a tool takes, the required ones alone."""
    schema = tool.to_mcp().input_schema
    properties = {name: schema["properties"][name] for name in schema.get("required", ())}
    return {name: REQUIRED.get(name) or prop.get("enum", [PLAIN[prop["type"]]])[0] for name, prop in properties.items()}


def test_an_optional_argument_that_is_filled_with_nothing_counts_as_absent(tmp_path):
    """Clients with strict schemas make the model fill in every argument."""
    failed = []
    with contextlib.closing(Roots([tmp_path])) as roots:
        policy = Policy(roots, ("echo",))
        for tool in TOOLS:
            binder, given = Binder(tool), required(tool)
            absent = repr(binder.bind(given, GuardContext(policy)))
            properties = tool.to_mcp().input_schema["properties"]
            optional = {name: prop["type"] for name, prop in properties.items() if name not in given}
            forms = [
                {name: None for name in optional},
                {name: [] if kind == "array" else "" for name, kind in optional.items()},
                {name: {} if kind == "object" else "" for name, kind in optional.items()},
            ]
            for filled in forms:
                try:
                    bound = repr(binder.bind({**given, **filled}, GuardContext(policy)))
                except ToolError as refused:
                    bound = refused.error
                if bound != absent:
                    failed.append((tool.name, filled, bound, absent))
    assert failed == []
    assert len(TOOLS) == 58
