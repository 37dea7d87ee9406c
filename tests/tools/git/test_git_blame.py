async def test_names_commit_author_and_day_of_each_line(call, git):
    first = git.commit("one", a_dot_txt="one\ntwo\n")[:8]
    second = git.commit("two", a_dot_txt="one\n2\n")[:8]
    git.write("a.txt", "one\n2\n3\x1b[31m\n")
    rows = [f"{first} (Ann Author 2026-01-02) 1: one", f"{second} (Ann Author 2026-01-02) 2: 2"]
    answer = (await call("git_blame", path="a.txt")).split("\n")
    assert answer[:2] == rows
    assert answer[2].startswith("00000000 (")
    assert answer[2].endswith(") 3: 3<U+001B>[31m")
    failed = []
    for arguments, expected in (
        ({"start_line": 2, "end_line": 2}, rows[1]),
        ({"end_line": 1}, rows[0]),
        ({"start_line": 2, "end_line": 1}, "empty_range"),
        ({"start_line": 99}, "empty_range"),
        ({"start_line": 0}, "invalid_args"),
        ({"path": "gone"}, "not_a_file"),
        ({"path": "."}, "not_a_file"),
        ({"path": "../x"}, "path_denied"),
    ):
        answer = await call("git_blame", **({"path": "a.txt"} | arguments))
        if (answer["code"] if isinstance(answer, dict) else answer) != expected:
            failed.append((arguments, answer))
    assert failed == []


async def test_a_file_that_git_does_not_track_is_said(call, git):
    git.commit(a="1\n")
    git.write("b", "x\n")
    git.write("empty", "")
    assert await call.code("git_blame", path="b") == "not_a_file"
    git.commit()
    assert await call("git_blame", path="empty") == "(empty file)"
