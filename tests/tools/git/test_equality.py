"""Harmless repositories of every shape: the tools say what plain git says."""

import pytest


def plain_status(git):
    # Names with a space have quotes there.
    rows = git("status", "--porcelain", "-b", "-uall").replace('"', "").rstrip("\n").split("\n")
    return "\n".join([rows[0], *(rows[1:] or ["clean"])])


def plain_log(git, *args):
    return git("log", "--format=%h  %ad  %an  %s", "--date=short", *args).rstrip("\n") or "no commits"


def plain_patch(git, *args):
    return git("diff", *args).rstrip("\n")


def history(git):
    git.commit("one", a_dot_txt="one\ntwo\nthree\n", sub__b_dot_txt="b\n", _dot_gitignore="*.log\n")
    git("tag", "-a", "v1", "-m", "tag")
    git("checkout", "-q", "-b", "topic")
    git.commit("topic", c_dot_txt="c\n")
    git("checkout", "-q", "main")
    git("mv", "a.txt", "renamed.txt")
    git.commit("two", sub__b_dot_txt="b\nc\n")
    git("merge", "-q", "-m", "merged", "topic")


def dirty(git):
    git.write("sub/b.txt", "changed\n")
    git.write("new file.txt", "")
    git.write("x.log", "")
    git.write("staged.txt", "s\n")
    git("add", "staged.txt")


def detached(git, outside):
    history(git)
    git("checkout", "-q", "v1")


def packed(git, outside):
    history(git)
    git("gc", "-q", "--prune=now")
    git("pack-refs", "--all")


def sha256(git, outside):
    import shutil

    shutil.rmtree(git.folder / ".git")
    git("init", "-q", "-b", "main", "--object-format=sha256")
    history(git)


def reftable(git, outside):
    import shutil

    shutil.rmtree(git.folder / ".git")
    git("init", "-q", "-b", "main", "--ref-format=reftable", code=None)
    if not (git.folder / ".git" / "reftable").exists():
        pytest.skip("this git has no reftable")
    history(git)


def shallow(git, outside):
    import shutil

    history(git)
    git("clone", "-q", "--depth", "1", f"file://{git.folder}", str(outside / "clone"))
    shutil.rmtree(git.folder / ".git")
    (outside / "clone" / ".git").rename(git.folder / ".git")


def cloned(git, outside):
    import shutil

    history(git)
    git("clone", "-q", str(git.folder), str(outside / "clone"))
    shutil.rmtree(git.folder / ".git")
    (outside / "clone" / ".git").rename(git.folder / ".git")
    git.commit("ahead", d_dot_txt="d\n")


def sparse(git, outside):
    history(git)
    git("sparse-checkout", "set", "--cone", "sub")


def split_index(git, outside):
    history(git)
    git("update-index", "--split-index")


def crlf(git, outside):
    git("config", "core.autocrlf", "true")
    history(git)
    git.write("sub/b.txt", "b\r\nc\r\n")


def worktree(git, outside):
    history(git)
    git("worktree", "add", "-q", "-b", "side", "tree")
    git.folder = git.folder / "tree"


def submodule(git, outside):
    history(git)
    other = type(git)(outside / "other")
    other.folder.mkdir()
    other("init", "-q", "-b", "main")
    history(other)
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.folder), "inner")
    git.commit("with a submodule")
    git.folder = git.folder / "inner"


def with_submodule(git, outside):
    folder = git.folder
    submodule(git, outside)
    git.folder = folder


def bare_inside(git, outside):
    history(git)
    git("clone", "-q", "--bare", str(git.folder), str(outside / "bare"))
    (outside / "bare").rename(git.folder / "bare")
    git.write("bare/config", "[core]\n\tbare = true\n\tfsmonitor = false\n")


def unborn(git, outside):
    pass


def plain(git, outside):
    history(git)


FAST = (plain, worktree, submodule, unborn)
SLOW = (detached, packed, sha256, reftable, shallow, cloned, sparse, split_index, crlf, with_submodule, bare_inside)
SHAPES = [*FAST, *(pytest.param(shape, marks=pytest.mark.slow) for shape in SLOW)]


@pytest.mark.parametrize("shape", SHAPES)
async def test_answers_are_those_of_plain_git(call, git, tmp_path, shape):
    outside = tmp_path / "outside"
    outside.mkdir()
    base = git.folder
    shape(git, outside)
    born = shape is not unborn
    where = git.folder.relative_to(base).as_posix()
    prefix = "" if where == "." else f"{where}/"
    call.roots = [base]
    different = []

    async def same(expected, name, **arguments):
        answer = await call(name, **{"repo": where} | arguments)
        answer = answer if isinstance(answer, str) else str(answer)
        if prefix:
            answer = answer.replace(prefix, "")
        if answer != expected and not (name in ("git_diff", "git_show") and expected and answer.endswith(expected)):
            different.append((name, arguments, answer, expected))

    for step in ("clean", "dirty"):
        if step == "dirty":
            dirty(git)
        await same(plain_status(git), "git_status")
        await same(plain_patch(git) or "no changes", "git_diff")
        await same(plain_patch(git, "--cached") or "no changes", "git_diff", staged=True)
    if born:
        for ref in ("HEAD", "main", "HEAD~1", "v1^{}..HEAD", "topic...HEAD", "HEAD@{0}", "@{u}.."):
            if git("log", "-1", ref, code=None):
                await same(plain_log(git, ref), "git_log", ref=ref)
                # Of a submodule in the work tree nothing is looked at: it would be git that runs there.
                looks = "--ignore-submodules=" + ("none" if ".." in ref else "all")
                await same(plain_patch(git, looks, ref) or "no changes", "git_diff", ref=ref)
        await same(plain_log(git), "git_log")
        await same(plain_log(git, "--follow", "--", "renamed.txt"), "git_log", path=f"{prefix}renamed.txt", follow=True)
        if patch := git("show", "--format=", "HEAD").strip("\n"):
            await same(patch, "git_show", ref="HEAD")
        await same(git("show", "HEAD:sub/b.txt").rstrip("\n"), "git_show", ref="HEAD", path=f"{prefix}sub/b.txt")
        await same(
            git("grep", "-n", "-I", "c").rstrip("\n").replace(":c", ": c").replace(":*", ": *"),
            "git_grep",
            pattern="^c",
        )
        branches = git("branch", "-a", "--format=%(HEAD) %(refname:lstrip=1)").replace("heads/", "")
        listed = await call("git_branch", all=True, repo=where)
        assert len(listed.split("\n")) >= len([row for row in branches.split("\n") if row and "(HEAD" not in row])
        blamed = [
            row.split("\t", 1) for row in git("blame", "--porcelain", "sub/b.txt").split("\n") if row.startswith("\t")
        ]
        assert (await call("git_blame", path=f"{prefix}sub/b.txt", repo=where)).count("\n") + 1 == len(blamed)
    assert different == []


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_is_committed_holds_for_plain_git(call, git, tmp_path, shape):
    outside = tmp_path / "outside"
    outside.mkdir()
    base = git.folder
    shape(git, outside)
    where = git.folder.relative_to(base).as_posix()
    prefix = "" if where == "." else f"{where}/"
    call.roots = [base]
    assert (await call("git_checkout", branch="work", create=True, repo=where)) == "Created and switched to work"
    git.write("sub/new.txt", "n\n")
    assert "A  " in await call("git_add", paths=[f"{prefix}sub"], repo=where)
    assert "Committed " in await call("git_commit", message="by the tool", repo=where)
    assert git("log", "-1", "--format=%s") == "by the tool\n"
    assert git("rev-parse", "--abbrev-ref", "HEAD") == "work\n"
    assert "sub/new.txt" in git("ls-tree", "-r", "--name-only", "HEAD")
    if shape is not unborn:
        head = git("rev-parse", "HEAD~1").strip()
        assert (await call("git_checkout", branch=head, repo=where)).endswith("(detached)")
        assert git("rev-parse", "HEAD").strip() == head
        assert (await call("git_checkout", branch="work", repo=where)) == "Switched to work"
        assert (git.folder / "sub/new.txt").exists()
    git("fsck", "--strict")
    assert git("status", "--porcelain", "-uno") == ""
