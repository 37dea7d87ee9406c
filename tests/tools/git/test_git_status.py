async def test_says_the_branch_and_what_changed(call, git):
    assert await call("git_status") == "## No commits yet on main\nclean"
    git.commit(a_dot_txt="one\n", b_dot_txt="two\n", old_dot_txt="the same content\n")
    assert await call("git_status") == "## main\nclean"
    git("mv", "old.txt", "new name.txt")
    git.write("a.txt", "1\n")
    git.write("sub/ü.txt", "")
    (git.folder / "b.txt").unlink()
    rows = " M a.txt\n D b.txt\nR  old.txt -> new name.txt\n?? sub/ü.txt"
    assert await call("git_status") == f"## main\n{rows}"
    assert await call("git_status", path="sub") == "## main\n?? sub/ü.txt"


async def test_says_how_far_the_upstream_is(call, git):
    git.commit("one")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    git.commit("two")
    git("config", "remote.origin.url", "https://example.org/x.git")
    git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    git("config", "branch.main.remote", "origin")
    git("config", "branch.main.merge", "refs/heads/main")
    assert await call("git_status") == "## main...origin/main [ahead 1]\nclean"
    assert (
        await call("git_log", ref="@{u}..HEAD")
        == f"{git('rev-parse', '--short', 'HEAD').strip()}  2026-01-02  Ann Author  two"
    )


async def test_names_are_shown_on_one_line_without_control_characters(call, git):
    git.write("a\nb", "")
    git.write("c\x1b[31md", "")
    assert await call("git_status") == "## No commits yet on main\n?? a<U+000A>b\n?? c<U+001B>[31md"


async def test_two_thousand_changes_are_told_by_folder(call, git):
    for number in range(2000):
        git.write(f"{'lib' if number % 4 else 'app'}/{number}.txt", "")
    git.write("alone", "")
    answer = await call("git_status")
    assert answer.split("\n") == [
        "## No commits yet on main",
        "2001 entries: 2001 '??'",
        "?? lib/ (1500 entries)",
        "?? app/ (500 entries)",
        "?? alone",
        "... git_status shows one folder with path, and every entry with start_line=1 ...",
    ]
    rows: list[str] = []
    while len(rows) < 2001:
        head, *page = (await call("git_status", start_line=len(rows) + 1)).split("\n")
        assert head == "## No commits yet on main"
        last = f"[lines {len(rows) + 1}-{len(rows) + len(page) - 1} of 2001; continue with start_line={len(rows) + len(page)}]"
        rows += page[:-1] if page[-1] == last else page
    assert rows == git("status", "--porcelain", "-uall").splitlines()
    assert await call.code("git_status", start_line=2002) == "empty_range"
    assert await call("git_status", path="nothing", start_line=5) == "## No commits yet on main\nclean"


async def test_a_repository_is_found_from_its_folders_and_named_from_the_base(call, git, plain, project):
    inner = plain(project / "lib" / "inner")
    inner.folder.mkdir(parents=True)
    inner("init", "-q", "-b", "dev")
    inner.write("x/y.txt", "")
    assert await call("git_status", repo="lib/inner/x") == "## No commits yet on dev\n?? lib/inner/x/y.txt"


async def test_what_is_no_repository_is_said(call, project):
    (project / "f").write_text("")
    (project / "no").mkdir()
    (project / "no" / ".git").mkdir()
    for repo, code in (
        (".", "not_a_repo"),
        ("no", "not_a_repo"),
        ("f", "not_a_directory"),
        ("x", "not_a_directory"),
        ("..", "path_denied"),
    ):
        assert await call.code("git_status", repo=repo) == code


async def test_a_repository_that_begins_above_the_roots_is_not_used(call, git, project):
    (project / "part").mkdir()
    call.roots = [project / "part"]
    refused = await call("git_status")
    assert (refused["code"], "another root" in refused["hint"]) == ("not_a_repo", True)


async def test_a_base_in_a_repository_whose_folder_is_another_root_is_worked_on(call, git, project):
    part = project / "part"
    part.mkdir()
    (part / "f").write_text("one\n")
    git("add", "part")
    git("commit", "-qm", "part")
    (part / "f").write_text("two\n")
    (part / "g").write_text("new\n")
    call.roots = [part, project]
    assert f" M {part}/f" in await call("git_status")
    assert "+two" in await call("git_diff", path="f")
    assert "part" in await call("git_log", path="f")
    assert f"M  {part}/f" in await call("git_add", paths=["f"])
    assert (await call("git_commit", message="from below")).startswith("Committed ")
    assert git("show", "--stat", "--format=%s", "HEAD").startswith("from below")
    # A link in the base to somebody else's folder is no way up.
    (part / "out").symlink_to("/")
    assert await call.code("git_status", repo="out") == "path_denied"


async def test_without_git_it_says_so(call, git):
    call.git_settings = {"binary": None}
    assert await call.code("git_status") == "unavailable"
