import re


async def test_shows_a_commit_with_its_message_and_patch(call, git):
    commit = git.commit("subject\n\nbody line", a_dot_txt="one\n")
    git("tag", "-a", "v1", "-m", "tag")
    patch = git("show", "--format=", "HEAD").strip("\n")
    expected = (
        f"commit {commit}\nauthor Ann Author <ann@example.org>\ndate 2026-01-02 03:04:05 +0000\n\n    subject\n\n    body line\n\n"
        f" a.txt | 1 +\n 1 file changed, 1 insertion(+), 0 deletions(-)\n\n{patch}"
    )
    failed = []
    for ref in ("HEAD", "main", "v1", "v1^{}", commit[:8], "@", "main@{0}"):
        answer = await call("git_show", ref=ref)
        if "\n".join(line.rstrip() for line in answer.split("\n")) != expected:
            failed.append((ref, answer))
    assert failed == []


async def test_shows_a_file_as_it_was(call, git):
    git.commit("one", a_dot_txt="one\r\ntwo\r\n", sub__b="\x1b[31mx\n")
    git.commit("two", a_dot_txt="2\n", bin="\0\0")
    failed = []
    for arguments, expected in (
        ({"ref": "HEAD~1", "path": "a.txt"}, "one\ntwo"),
        ({"ref": "HEAD~1", "path": "a.txt", "start_line": 2}, "two"),
        ({"ref": "HEAD~1", "path": "a.txt", "start_line": 3}, "empty_range"),
        ({"ref": "HEAD", "path": "a.txt"}, "[lines 1-1 of 1]\n2"),
        ({"ref": "HEAD", "path": "sub/b"}, "<U+001B>[31mx"),
        ({"ref": "HEAD", "path": "sub"}, "not_a_file"),
        ({"ref": "HEAD", "path": "."}, "not_a_file"),
        ({"ref": "HEAD", "path": "gone"}, "not_a_file"),
        ({"ref": "HEAD~1", "path": "bin"}, "not_a_file"),
        ({"ref": "HEAD", "path": "bin"}, "binary_file"),
        ({"ref": "nope", "path": "a.txt"}, "bad_ref"),
        ({"ref": "HEAD", "path": "../x"}, "path_denied"),
        ({"ref": "HEAD:a.txt"}, "bad_ref"),
        ({"ref": "main..HEAD"}, "bad_ref"),
        ({"ref": "-p"}, "bad_ref"),
        ({"ref": "HEAD^{tree}"}, "bad_ref"),
    ):
        answer = await call("git_show", **arguments)
        if (answer["code"] if isinstance(answer, dict) else answer) != expected:
            failed.append((arguments, answer))
    assert failed == []


async def test_a_long_file_and_its_blame_are_read_on(call, git):
    git.commit(long="".join(f"line {number}\n" for number in range(1, 4001)))
    failed = []
    for name, given, row in (
        ("git_show", {"ref": "HEAD"}, "line {}"),
        ("git_blame", {}, git("rev-parse", "HEAD")[:8] + " (Ann Author 2026-01-02) {0}: line {0}"),
    ):
        *rows, last = (await call(name, path="long", **given)).split("\n")
        onward = (await call(name, path="long", **given, start_line=len(rows) + 1)).split("\n")
        number = len(rows) + 1
        if last != f"[lines 1-{number - 1} of 4000; continue with start_line={number}]" or onward[0] != row.format(
            number
        ):
            failed.append((name, last, onward[0]))
    assert failed == []


async def test_a_message_cannot_pass_for_a_patch(call, git):
    git.commit(
        "x\n\ndiff --git a/evil b/evil\n--- a/evil\n+++ b/evil\n@@ -1 +1 @@\n-a\n+b\n\x1e\n",
        a="line\rdiff --git a/y b/y\n",
    )
    answer = await call("git_show", ref="HEAD")
    assert " 1 file changed" in answer
    assert "\ndiff --git a/evil" not in answer
    assert "\ndiff --git a/y" not in answer


async def test_a_merge_shows_what_differs_from_both_parents(call, git):
    git.commit("one", a="1\n2\n3\n4\n5\n")
    git("checkout", "-q", "-b", "topic")
    git.commit("two", a="1\n2\n3\n4\nfive\n")
    git("checkout", "-q", "main")
    git.commit("three", a="one\n2\n3\n4\n5\n")
    git("merge", "-q", "--no-commit", "topic")
    git.commit("merged", a="one\n2\nTHREE\n4\nfive\n")
    answer = await call("git_show", ref="HEAD")
    assert "\ndiff --cc a\n" in answer
    assert " a | 2 +-\n" in answer or " a | " in answer


async def test_a_merge_that_changes_nothing_says_how_to_see_what_it_brought(call, git):
    git.commit("one", a="1\n")
    git("checkout", "-q", "-b", "topic")
    git.commit("two", b="2\n")
    git("checkout", "-q", "main")
    git("merge", "-q", "--no-ff", "-m", "merged", "topic")
    answer = await call("git_show", ref="HEAD")
    found = re.search(r'git_diff ref="([0-9a-f]+\.\.[0-9a-f]+)" shows what it brought', answer)
    assert found, answer
    assert "b | 1 +" in await call("git_diff", ref=found[1])
    git("commit", "-q", "--allow-empty", "-m", "nothing")
    assert "merge" not in await call("git_show", ref="HEAD")
