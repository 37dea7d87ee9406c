import re


async def test_shows_a_summary_and_the_patch(call, git):
    git.commit(a_dot_txt="one\ntwo\n", b_dot_txt="x\n")
    assert await call("git_diff") == "no changes"
    git.write("a.txt", "one\n2\n3\n")
    patch = git("diff").rstrip("\n")
    assert await call("git_diff") == f" a.txt | 3 ++-\n 1 file changed, 2 insertions(+), 1 deletion(-)\n\n{patch}"
    assert await call("git_diff", staged=True) == "no changes"
    git("add", "-A")
    assert (await call("git_diff", staged=True)).endswith(patch)
    assert await call("git_diff") == "no changes"
    assert (await call("git_diff", ref="HEAD")).endswith(patch)
    assert await call("git_diff", ref="HEAD", path="b.txt") == "no changes"


async def test_ranges_are_what_git_users_type(call, git):
    git.commit("one", a="1\n")
    git("tag", "-a", "v1", "-m", "tag")
    git("checkout", "-q", "-b", "topic")
    git.commit("two", b="2\n")
    git("checkout", "-q", "main")
    git.commit("three", c="3\n")
    failed = []
    for ref in (
        "v1",
        "main..topic",
        "main...topic",
        "v1^{}..topic",
        "..topic",
        "topic..",
        "HEAD~1",
        "topic^",
        "main@{0}",
        "@",
    ):
        answer = await call("git_diff", ref=ref)
        expected = git("diff", ref).rstrip("\n")
        if not (answer == "no changes" if not expected else answer.endswith(expected)):
            failed.append((ref, answer))
    assert failed == []


async def test_names_in_a_repository_below_are_those_of_the_base(call, plain, project):
    inner = plain(project / "lib")
    inner.folder.mkdir()
    inner("init", "-q")
    inner.commit(a_dot_txt="one\n")
    inner.write("a.txt", "two\n")
    answer = await call("git_diff", repo="lib", path="lib/a.txt")
    assert " lib/a.txt | 2 +-\n" in answer
    assert "--- a/lib/a.txt\n+++ b/lib/a.txt\n" in answer
    assert await call.code("git_diff", repo="lib", path="a.txt") == "invalid_args"


async def test_a_large_diff_is_cut_between_files_and_hunks(call, git):
    for name in "abcd":
        git.write(name, "".join(f"{name} {number}\n" for number in range(10_000)))
    git.commit()
    for name in "abcd":
        count = 3 if name == "a" else 10_000
        git.write(
            name,
            "".join(
                f"{name} {number}{' new' if number < count or number % 50 == 0 else ''}\n" for number in range(10_000)
            ),
        )
    git.write("d", "".join(f"d {number}{' new' if number % 50 == 0 else ''}\n" for number in range(10_000)))
    answer = await call("git_diff")
    assert len(answer) < 12_000
    assert " 4 files changed, " in answer
    marker = r"\n\.\.\. not shown: the rest of a, b, c, d; continue with start_line=(\d+), or path shows one file or folder \.\.\."
    line = re.search(f"{marker}$", answer)
    assert line
    body = answer.split("\n\n", 1)[1].rsplit("\n", 1)[0]
    whole = git("diff", "--", "a")
    assert whole.startswith(body)
    assert whole[len(body) :].startswith("\n@@ ")
    hunks = re.findall(r"^@@ -(\d+),", body, re.MULTILINE)
    assert len(hunks) > 10
    assert int(line[1]) == body.count("\n") + 2


async def test_a_large_diff_is_read_on_to_its_end(call, git):
    git.commit(a="1\n", big="".join(f"line {number}\n" for number in range(3000)), c="1\n", d="1\n")
    for name in "acd":
        git.write(name, "2\n")
    git.write("big", "".join(f"LINE {number}\n" for number in range(3000)))
    patch = git("diff")
    first = await call("git_diff")
    top, _, rest = first.partition("\n\n")
    assert top.endswith("\n 4 files changed, 3003 insertions(+), 3003 deletions(-)")
    seen, pages = "", 0
    while found := re.search(
        r"^\.\.\. not shown: .*; continue with start_line=(\d+), or path .*\Z", rest, re.MULTILINE
    ):
        seen += rest[: found.start()]
        pages += 1
        assert patch.startswith(seen)
        rest = await call("git_diff", start_line=int(found[1]))
    assert seen + rest + "\n" == patch
    assert pages > 5
    assert "not shown: big, c, d;" in first
    lines = patch.count("\n")
    answer = await call("git_diff", start_line=lines + 1)
    assert (answer["code"], answer["hint"]) == ("empty_range", f"it has {lines} lines")
    git.commit("all")
    assert (await call("git_show", ref="HEAD", start_line=3)).startswith(patch.split("\n", 2)[2][:400])


async def test_a_line_longer_than_an_answer_is_passed(call, git):
    git.commit(a="1\n", b="1\n")
    git.write("a", "x " * 100_000 + "\nlast\n")
    git.write("b", "2\n")
    answer = await call("git_diff")
    assert answer.endswith("\n\n... not shown: a, b; continue with start_line=1, or path shows one file or folder ...")
    answer = await call("git_diff", start_line=7)
    assert answer.startswith("+x x x ")
    assert " tokens cut" in answer
    assert answer.endswith(
        "\n... not shown: the rest of a, b; continue with start_line=8, or path shows one file or folder ..."
    )
    assert (await call("git_diff", start_line=8)).startswith("+last\ndiff --git a/b b/b\n")


async def test_binary_files_renames_and_modes_are_told(call, git):
    git.commit(old="".join(f"{n}\n" for n in range(50)), s="#!/bin/sh\n")
    git.write("bin", b"\0\1")
    git("mv", "old", "new")
    (git.folder / "s").chmod(0o755)
    git("add", "-A")
    answer = await call("git_diff", staged=True)
    assert " bin        | Bin\n old => new | 0\n s          | 0\n 3 files changed" in answer
    assert answer.endswith(git("diff", "--cached").rstrip("\n"))


async def test_refuses_what_is_no_commit(call, git):
    git.commit()
    failed = []
    for ref in (
        "--output=x", "-p", "a b", "HEAD:a", "..", "...", "a..b..c", "nope", "HEAD~99", "main..nope", ":/x", "^main", "x" * 300, "HEAD\n--output=x",
        "--output=x..HEAD", "HEAD..--output=x", "a\0b", "@{u}",
    ):  # fmt: skip
        if await call.code("git_diff", ref=ref) not in ("bad_ref",):
            failed.append((ref, await call("git_diff", ref=ref)))
    assert failed == []
    assert not (git.folder / "x").exists()
