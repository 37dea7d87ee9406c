import pytest


@pytest.mark.parametrize(
    ("name", "arguments", "hint"),
    [
        ("read_file", {"file": "a"}, "did you mean path?"),
        ("read_file", {"path": "a", "offset": 5}, "did you mean start_line?"),
        ("read_file", {"path": "a", "cwd": "b"}, "known: path, start_line, end_line, tail, start_match, end_match, numbered, encoding, unsafe"),
        ("glob", {"pattern": "*", "path": "src"}, "did you mean base?"),
        ("grep_files", {"regex": "a"}, "did you mean pattern?"),
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
