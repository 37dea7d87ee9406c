from toolbox_mcp.tools.settings import ToolSettings


async def test_finds_lines_of_tracked_files(call, git):
    git.commit(a_dot_txt="one\nTwo\n", sub__b_dot_txt="one more\n", bin="one\0")
    git.write("untracked", "one\n")
    failed = []
    for arguments, expected in (
        ({"pattern": "one"}, "a.txt:1: one\nsub/b.txt:1: one more"),
        ({"pattern": "one", "path": "sub"}, "sub/b.txt:1: one more"),
        ({"pattern": "two", "ignore_case": True}, "a.txt:2: Two"),
        ({"pattern": r"\bm\w+e$"}, "sub/b.txt:1: one more"),
        ({"pattern": "o.e", "fixed": True}, "no matches for o.e"),
        ({"pattern": "--output=x"}, "no matches for --output=x"),
        ({"pattern": "-O"}, "no matches for -O"),
        ({"pattern": "one", "path": "*.txt"}, "no matches for one"),
        ({"pattern": "one", "path": ":(top)a.txt"}, "no matches for one"),
        ({"pattern": ""}, "empty_pattern"),
        ({"pattern": "(("}, "bad_pattern"),
        ({"pattern": "a\0b"}, "invalid_args"),
        ({"pattern": "one", "path": "/etc"}, "path_denied"),
    ):
        answer = await call("git_grep", **arguments)
        if (answer["code"] if isinstance(answer, dict) else answer) != expected:
            failed.append((arguments, answer))
    assert failed == []


async def test_stops_at_the_bound(call, git):
    call.settings = ToolSettings(max_grep_matches=3)
    git.commit(a="x\n" * 10)
    assert await call("git_grep", pattern="x") == "a:1: x\na:2: x\na:3: x\n... (stopped at 3 matches)"


async def test_lines_are_shown_without_control_characters(call, git):
    git.commit(**{"a\nb": "x\x1b[31m" + "y" * 600 + "\n"})
    assert await call("git_grep", pattern="x") == f"a<U+000A>b:1: x<U+001B>[31m{'y' * 494}…"
