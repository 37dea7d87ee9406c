import os
import subprocess

import anyio
import pytest

LINES = "".join(f"line {number}\n" for number in range(1, 31))


def diff(*hunks, path="a.txt"):
    return f"--- a/{path}\n+++ b/{path}\n" + "".join(hunks)


ONE = "@@ -2,3 +2,3 @@\n line 2\n-line 3\n+LINE 3\n line 4\n"


def envelope(*lines):
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def test_changes_adds_removes_and_renames(call, project):
    (project / "a.txt").write_text(LINES)
    (project / "gone.txt").write_text("x\ny\n")
    (project / "old.txt").write_text("1\n2\n3\n")
    patch = (
        "Some words before.\n\ndiff --git a/a.txt b/a.txt\nindex 1..2 100644\n" + diff(ONE, "@@ -20,2 +20,3 @@\n line 20\n+more\n line 21\n")
        + "diff --git a/sub/new.sh b/sub/new.sh\nnew file mode 100755\n--- /dev/null\n+++ b/sub/new.sh\n@@ -0,0 +1,2 @@\n+#!/bin/sh\n+echo\n"
        + "diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\n--- a/gone.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n"
        + "diff --git a/old.txt b/d/name.txt\nsimilarity index 60%\nrename from old.txt\nrename to d/name.txt\n--- a/old.txt\n+++ b/d/name.txt\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n"
    )  # fmt: skip
    rows = "4 file(s) (+5 -4)\nM a.txt\nA sub/new.sh\nD gone.txt\nR old.txt -> d/name.txt"
    assert await call("apply_patch", patch=patch, check=True) == f"Applies cleanly: {rows}"
    assert (project / "gone.txt").exists()
    assert (await call("apply_patch", patch=patch)).startswith(f"Applied to {rows}")
    assert (project / "a.txt").read_text() == LINES.replace("line 3\n", "LINE 3\n").replace(
        "line 20\n", "line 20\nmore\n"
    )
    assert (project / "sub/new.sh").stat().st_mode & 0o111
    assert (project / "d/name.txt").read_text() == "1\ntwo\n3\n"
    assert not (project / "gone.txt").exists()
    assert not (project / "old.txt").exists()
    assert (await call("apply_patch", patch=patch)).startswith("Already applied: 4 file(s)\n")
    await call("undo")
    assert (project / "a.txt").read_text() == LINES
    assert (project / "old.txt").read_text() == "1\n2\n3\n"
    assert (project / "gone.txt").read_text() == "x\ny\n"
    assert not (project / "sub").exists()


async def test_does_what_the_envelope_says(call, project):
    (project / "a.py").write_text(
        "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n"
    )
    (project / "old.txt").write_text("1\n2\n")
    (project / "gone").write_text("x\n")
    patch = envelope(
        "*** Add File: sub/new.txt", "+one", "+", "+two", "",
        "*** Update File: a.py", "@@ class B:", "@@     def f(self):", "-        return 1", "+        return 2",
        "*** Update File: old.txt", "*** Move to: moved.txt", "@@", " 1", "+1.5", " 2", "*** End of File",
        "*** Delete File: gone",
    )  # fmt: skip
    answer = await call("apply_patch", patch=patch)
    assert answer.startswith("Applied to 4 file(s) (+5 -2)\nA sub/new.txt\nM a.py\nR old.txt -> moved.txt\nD gone")
    assert (project / "sub/new.txt").read_text() == "one\n\ntwo\n"
    assert (project / "a.py").read_text().endswith("class B:\n    def f(self):\n        return 2\n")
    assert "return 1" in (project / "a.py").read_text()
    assert (project / "moved.txt").read_text() == "1\n1.5\n2\n"
    assert (await call("apply_patch", patch=patch)).startswith("Already applied: 4 file(s)\n")


async def test_finds_the_place_of_each_hunk(call, project):
    failed = []
    shifted = "new\n" * 5 + LINES
    for name, before, patch, after in (
        ("where it says", LINES, diff(ONE), LINES.replace("line 3\n", "LINE 3\n")),
        ("further down", shifted, diff(ONE), shifted.replace("line 3\n", "LINE 3\n")),
        ("wrong counts", LINES, diff("@@ -2,9 +2,1 @@\n line 2\n-line 3\n+LINE 3\n line 4\n"), LINES.replace("line 3\n", "LINE 3\n")),
        ("no numbers", LINES, diff("@@ ... @@\n line 2\n-line 3\n+LINE 3\n line 4\n"), LINES.replace("line 3\n", "LINE 3\n")),
        ("no prefix", LINES, "--- a.txt\n+++ a.txt\n" + ONE, LINES.replace("line 3\n", "LINE 3\n")),
        ("a time", LINES, "--- a.txt\t2026-01-01\n+++ a.txt\t2026-01-01 00:00:00\n" + ONE, LINES.replace("line 3\n", "LINE 3\n")),
        ("line ends", LINES.replace("\n", "\r\n"), diff(ONE), LINES.replace("line 3\n", "LINE 3\n").replace("\n", "\r\n")),
        ("a patch with CRLF", LINES, diff(ONE).replace("\n", "\r\n"), LINES.replace("line 3\n", "LINE 3\n")),
        ("white space at the end", LINES.replace("line 2\n", "line 2  \n"), diff(ONE), LINES.replace("line 2\n", "line 2  \n").replace("line 3\n", "LINE 3\n")),
        ("a BOM", "\ufeff" + LINES, diff("@@ -1 +1,2 @@\n line 1\n+x\n"), "\ufeff" + LINES.replace("line 1\n", "line 1\nx\n", 1)),
        ("no line end at the end", "a\nb", diff("@@ -1,2 +1,2 @@\n a\n-b\n+c\n"), "a\nc"),
        ("a line after the last", "a\nb", diff("@@ -1,2 +1,3 @@\n a\n b\n+c\n"), "a\nb\nc"),
        ("the line end comes", "a\nb", diff("@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"), "a\nb\n"),
        ("the line end goes", "a\nb\n", diff("@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n"), "a\nb"),
        ("nothing is left", "a\n", diff("@@ -1 +0,0 @@\n-a\n"), ""),
        ("an empty file", "", diff("@@ -0,0 +1 @@\n+a\n"), "a\n"),
        ("in front", "b\n", diff("@@ -0,0 +1 @@\n+a\n"), "a\nb\n"),
        ("the nearest of several", "x\n" * 30, diff("@@ -20,1 +20,2 @@\n x\n+y\n"), "x\n" * 20 + "y\n" + "x\n" * 10),
        ("lines that look like headers", "-- a\n++ b\nc\n", diff("@@ -1,3 +1,2 @@\n--- a\n-++ b\n c\n+d\n"), "c\nd\n"),
        ("a signature", LINES, diff(ONE) + "-- \n2.39.5\n\n", LINES.replace("line 3\n", "LINE 3\n")),
        ("the same file twice", LINES, diff(ONE) + diff("@@ -2,2 +2,2 @@\n-line 2\n+LINE 2\n LINE 3\n"), LINES.replace("line 2\nline 3\n", "LINE 2\nLINE 3\n")),
        ("two spans of an envelope", LINES, envelope("*** Update File: a.txt", " line 2", "-line 3", "@@ line 9", "+x"), LINES.replace("line 3\n", "").replace("line 9\n", "line 9\nx\n")),
        ("the end of an envelope", "x\ny\nx\ny\n", envelope("*** Update File: a.txt", "@@", "-x", "+z", " y", "*** End of File"), "x\ny\nz\ny\n"),
        ("added at the end", "x\n", envelope("*** Update File: a.txt", "@@", "+y"), "x\ny\n"),
    ):  # fmt: skip
        (project / "a.txt").write_bytes(before.encode())
        answer = await call("apply_patch", patch=patch)
        found = (project / "a.txt").read_bytes().decode()
        if found != after:
            failed.append((name, answer, found))
    assert failed == []


async def test_says_why_a_hunk_does_not_fit(call, project):
    (project / "a.txt").write_text(LINES)
    (project / "b.txt").write_text("b\n")
    patch = diff("@@ -1 +1 @@\n-b\n+B\n", path="b.txt") + diff(
        "@@ -1 +1 @@\n-line 1\n+x\n", "@@ -10,3 +10,3 @@\n line 10\n-line eleven\n+x\n line 12\n"
    )
    answer = await call("apply_patch", patch=patch)
    assert answer["code"] == "patch_failed"
    assert answer["error"] == (
        "a.txt: hunk 2 of 2 (@@ -10,3 +10,3 @@) does not fit: nearest at line 10 (- the file has, + the patch expects):\n"
        "  10: line 10\n- 11: line 11\n+ 11: line eleven\n  12: line 12"
    )
    assert (project / "a.txt").read_text() == LINES
    assert (project / "b.txt").read_text() == "b\n"


async def test_refuses_what_cannot_be_applied(call, project, tmp_path):
    (project / "a.txt").write_text(LINES)
    (project / "twice.txt").write_text("x\ny\nx\ny\n")
    (project / "bin").write_bytes(b"\0\1")
    (project / "d").mkdir()
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("c\n")
    (project / "link").symlink_to("a.txt")
    (project / "out").symlink_to(tmp_path)
    (tmp_path / "secret").write_text("s\n")
    (tmp_path / "big").write_text("s\n")
    os.mkfifo(project / "fifo")
    call.jail = {"protected": [".mcp.json"]}
    change = "@@ -1 +1 @@\n-s\n+x\n"
    new = "@@ -0,0 +1 @@\n+x\n"
    failed = []
    for patch, code in (
        ("", "empty_patch"),
        (" \n", "empty_patch"),
        ("just words", "empty_patch"),
        (envelope(), "empty_patch"),
        (ONE, "patch_failed"),
        (diff(change, path="../secret"), "path_denied"),
        (f"--- {tmp_path}/secret\n+++ {tmp_path}/secret\n{change}", "path_denied"),
        (diff(change, path="out/secret"), "path_denied"),
        (f'--- "a/\\056\\056/secret"\n+++ "b/\\056\\056/secret"\n{change}', "path_denied"),
        ("diff --git a/a.txt b/../x\nrename from a.txt\nrename to ../x\n", "path_denied"),
        ("diff --git a/a.txt b/../x\ncopy from ../secret\ncopy to x\n", "path_denied"),
        ("diff --git a/a.txt b/x\nrename from a.txt\nrename to .git/x\n", "protected_path"),
        (diff(change, path=".git/config"), "protected_path"),
        (diff(change, path=".GIT/config"), "protected_path"),
        (f"--- /dev/null\n+++ b/.git/hooks/post-commit\n{new}", "protected_path"),
        (f"--- /dev/null\n+++ b/d/.git/config\n{new}", "protected_path"),
        (f"--- /dev/null\n+++ b/.mcp.json\n{new}", "protected_path"),
        (envelope("*** Add File: .mcp.json", "+x"), "protected_path"),
        (envelope("*** Update File: a.txt", "*** Move to: ../x", " line 1"), "path_denied"),
        (envelope("*** Update File: a.txt", "*** Move to: .git/x", " line 1"), "protected_path"),
        (envelope("*** Delete File: ../secret"), "path_denied"),
        (envelope("*** Delete File: d"), "is_a_directory"),
        (envelope("*** Delete File: ."), "is_a_directory"),
        (envelope("*** Delete File: link"), "refused"),
        (envelope("*** Delete File: fifo"), "not_a_file"),
        (envelope("*** Delete File: a\0b"), "path_denied"),
        (envelope("nonsense"), "patch_failed"),
        (envelope("*** Update File: twice.txt", "@@", "-x", "+z"), "patch_failed"),
        (envelope("*** Update File: a.txt", "@@ nowhere", "-line 3"), "patch_failed"),
        ("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n", "refused"),
        ("diff --git a/l b/l\nold mode 100644\nnew mode 120000\n", "refused"),
        ("diff --git a/s b/s\nindex 1..2 160000\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n-a\n+b\n", "refused"),
        ("diff --git a/s b/s\nnew file mode 040000\n", "refused"),
        (diff(change, path="link"), "refused"),
        ("diff --git a/bin b/bin\nindex 1..2 100644\nGIT binary patch\nliteral 1\n", "refused"),
        ("diff --git a/bin b/bin\nBinary files a/bin and b/bin differ\n", "refused"),
        (diff(change, path="bin"), "binary_file"),
        (diff(change, path="gone.txt"), "patch_failed"),
        (f"--- /dev/null\n+++ b/a.txt\n{new}", "patch_failed"),
        ("diff --git a/a.txt b/twice.txt\nrename from a.txt\nrename to twice.txt\n", "patch_failed"),
        ("--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-line 1\n", "patch_failed"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +0,0 @@\n-line 1\n", "patch_failed"),
    ):  # fmt: skip
        answer = await call("apply_patch", patch=patch)
        if not isinstance(answer, dict) or answer["code"] != code:
            failed.append((patch, code, answer))
    assert failed == []
    assert (tmp_path / "secret").read_text() == "s\n"
    assert (project / ".git" / "config").read_text() == "c\n"
    assert sorted(os.listdir(project)) == [".git", "a.txt", "bin", "d", "fifo", "link", "out", "twice.txt"]
    assert (project / "a.txt").read_text() == LINES


async def test_half_applied_is_told(call, project):
    (project / "a.txt").write_text(LINES.replace("line 3\n", "LINE 3\n"))
    (project / "b.txt").write_text("b\n")
    hunk = "@@ -1 +1 @@\n-b\n+B\n"
    assert (await call("apply_patch", patch=diff(ONE))) == "Already applied: 1 file(s)\n= a.txt"
    for patch in (diff(ONE) + diff(hunk, path="b.txt"), diff(hunk, path="b.txt") + diff(ONE)):
        answer = await call("apply_patch", patch=patch)
        assert answer["code"] == "patch_failed"
        assert "applied already" in answer["error"]
    assert (project / "b.txt").read_text() == "b\n"


@pytest.mark.parametrize("seed", range(4))
async def test_what_git_and_diff_make_applies_as_git_does(call, git, seed):
    """Random edits, as `git diff` shows them, lead from the one state to the other."""
    import random

    rng = random.Random(seed)
    names = [f"f{number}" for number in range(6)]
    for name in names:
        git.write(name, "".join(f"{rng.choice('abc')}\n" for _ in range(rng.randrange(1, 60))))
    git.commit("one")
    for name in names:
        lines = (git.folder / name).read_text().split("\n")[:-1]
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(lines) + 1)
            lines[at : at + rng.randrange(3)] = [rng.choice("abcd")] * rng.randrange(3)
        git.write(name, "\n".join(lines) + rng.choice(["\n", "", "\n\n"]))
    git("mv", names[0], "moved")
    git.write("fresh", "x")
    git("add", "-A")
    wanted = {name: (git.folder / name).read_bytes() for name in git("ls-files").split()}
    patch = git("diff", "--cached", "-M", f"-U{rng.randrange(4)}")
    git("reset", "-q", "--hard")
    answer = await call("apply_patch", patch=patch)
    assert isinstance(answer, str), answer
    assert {
        name: (git.folder / name).read_bytes() for name in sorted(os.listdir(git.folder)) if name != ".git"
    } == wanted


async def test_the_answer_of_git_diff_applies(call, git):
    git.commit(a_dot_txt=LINES)
    git.write("a.txt", LINES.replace("line 7\n", "seven\n"))
    patch = await call("git_diff")
    git("checkout", "-q", "a.txt")
    assert (await call("apply_patch", patch=patch)).startswith("Applied to 1 file(s) (+1 -1)\nM a.txt")
    assert subprocess.run(["git", "diff", "--quiet"], cwd=git.folder, check=False).returncode == 1


async def test_lines_that_repeat_do_not_hang(call, project):
    (project / "a.txt").write_text("x\n" * 200_000)
    patch = diff("@@ -1,1000 +1,1000 @@\n" + " x\n" * 999 + "-y\n+z\n")
    with anyio.fail_after(20):
        assert await call.code("apply_patch", patch=patch) == "patch_failed"
