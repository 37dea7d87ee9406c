async def test_lists_commits_the_newest_first(call, git):
    assert await call("git_log") == "no commits"
    git.commit("one\n\nbody", a="1\n")
    git.commit("two", b="2\n")
    second, first = git("log", "--format=%h").split()
    rows = [f"{second}  2026-01-02  Ann Author  two", f"{first}  2026-01-02  Ann Author  one"]
    failed = []
    for arguments, expected in (
        ({}, rows),
        ({"count": 1}, rows[:1]),
        ({"count": 0}, rows[:1]),
        ({"count": 9999}, rows),
        ({"path": "a"}, rows[1:]),
        ({"path": "gone"}, ["no commits"]),
        ({"ref": "HEAD~1"}, rows[1:]),
        ({"ref": "HEAD~1..HEAD"}, rows[:1]),
        ({"author": "ann"}, rows),
        ({"author": "ANN@example"}, rows),
        ({"author": "a.n"}, ["no commits"]),
        ({"grep": "BODY"}, rows[1:]),
        ({"since": "2026-01-03"}, ["no commits"]),
        ({"until": "2026-01-03"}, rows),
        ({"since": "--output=x"}, ["no commits"]),
    ):
        answer = await call("git_log", **arguments)
        if answer != "\n".join(expected):
            failed.append((arguments, answer))
    assert failed == []


async def test_follows_a_file_past_its_renames(call, git):
    git.commit("one", old="".join(f"{n}\n" for n in range(50)))
    git("mv", "old", "new")
    git.commit("moved")
    assert (await call("git_log", path="new")).count("\n") == 0
    assert (await call("git_log", path="new", follow=True)).count("\n") == 1
    assert await call.code("git_log", follow=True) == "invalid_args"


async def test_subjects_and_names_carry_no_escapes(call, git):
    git.env["GIT_AUTHOR_NAME"] = "E\x1b]0;title\x07vil\u202e"
    git.commit("sub\x1b[31mject\u202e \x07x")
    assert (await call("git_log")).endswith("  2026-01-02  Evil  subject x")


async def test_says_what_refs_and_texts_are_not_taken(call, git):
    git.commit()
    for arguments, code in (
        ({"ref": "nope"}, "bad_ref"),
        ({"ref": "--all"}, "bad_ref"),
        ({"author": "a\0b"}, "invalid_args"),
        ({"path": "../x"}, "path_denied"),
        ({"path": "\0"}, "path_denied"),
    ):
        assert await call.code("git_log", **arguments) == code
