import os


async def test_stages_files_folders_and_deletions(call, git):
    git.commit(a="1\n", b="2\n", gone="3\n", d__e="4\n")
    git.write("a", "one\n")
    git.write("d/e", "four\n")
    git.write("d/new.txt", "")
    git.write("other", "")
    (git.folder / "gone").unlink()
    (git.folder / "link").symlink_to("/etc/passwd")
    assert await call("git_add", paths=["a", "gone", "link"]) == "Staged:\nM  a\nD  gone\nA  link"
    assert await call("git_add", paths=["d"]) == "Staged:\nM  d/e\nA  d/new.txt"
    assert await call("git_add", paths=["d"]) == "Staged:\nM  d/e\nA  d/new.txt"
    assert await call("git_add", paths=["b"]) == "Staged:\n(nothing differs from the last commit)"
    assert await call("git_status") == "## main\nM  a\nM  d/e\nA  d/new.txt\nD  gone\nA  link\n?? other"
    assert git("show", ":link") == "/etc/passwd"
    git("fsck", "--strict")


async def test_refuses_what_is_not_there_ignored_or_outside(call, git):
    git.commit(_dot_gitignore="*.log\n", a="1\n")
    git.write("x.log", "")
    os.mkfifo(git.folder / "fifo")
    failed = []
    for paths, code in (
        ([], "no_paths"),
        (["gone"], "not_found"),
        (["a", "gone/x"], "not_found"),
        (["x.log"], "git_failed"),
        (["fifo"], "git_failed"),
        (["../x"], "path_denied"),
        (["/etc/passwd"], "path_denied"),
        (["*"], "not_found"),
        ([":(top)a"], "not_found"),
        (["--all"], "not_found"),
        (["a\0b"], "path_denied"),
        ([".git/config"], "git_failed"),
    ):
        found = await call.code("git_add", paths=paths)
        if found != code:
            failed.append((paths, found))
    assert failed == []
    assert git("status", "--porcelain", "-uno") == ""


async def test_leaves_other_repositories_out_and_says_so(call, git, plain):
    inner = plain(git.folder / "inner")
    inner.folder.mkdir()
    inner("init", "-q")
    inner.commit(x="")
    git.write("a", "")
    answer = await call("git_add", paths=["."])
    assert answer == "Staged:\nA  a\n... (inner/: a repository of its own, not staged) ..."


async def test_says_that_a_filter_did_not_run(call, git):
    git.write(".gitattributes", "*.bin filter=lfs\n")
    git.write("x.bin", "raw")
    answer = await call("git_add", paths=["."])
    assert answer.endswith("\n... (x.bin: staged as it is, as no filter of the repository runs) ...")
    assert git("show", ":x.bin") == "raw"


async def test_line_ends_are_those_that_the_repository_wants(call, git):
    git("config", "core.autocrlf", "true")
    git.write("a", "one\r\n")
    await call("git_add", paths=["a"])
    assert git("show", ":a") == "one\n"
