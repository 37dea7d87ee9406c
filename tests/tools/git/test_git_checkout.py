import pytest


async def test_switches_and_creates(call, git):
    first = git.commit("one", a="1\n")
    assert await call("git_checkout", branch="topic/x", create=True) == "Created and switched to topic/x"
    second = git.commit("two", a="2\n", b="b\n")
    assert await call("git_checkout", branch="main") == "Switched to main"
    assert (git.folder / "a").read_text() == "1\n"
    assert not (git.folder / "b").exists()
    assert git("symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert git("status", "--porcelain") == ""
    assert await call("git_checkout", branch="@{-1}") == "Switched to topic/x"
    git("tag", "v1", first)
    assert await call("git_checkout", branch="v1") == f"Switched to {first[:8]} (detached)"
    assert git("rev-parse", "HEAD").strip() == first
    assert await call("git_checkout", branch=second[:10]) == f"Switched to {second[:8]} (detached)"
    assert git("reflog").splitlines()[0].endswith("checkout: moving from " + first + " to " + second)


async def test_a_branch_is_created_where_there_is_no_commit(call, git):
    assert await call("git_checkout", branch="other", create=True) == "Created and switched to other"
    assert git("symbolic-ref", "HEAD") == "refs/heads/other\n"


async def test_refuses_what_cannot_be_switched_to(call, git):
    git.commit("one", a="1\n")
    git("checkout", "-q", "-b", "topic")
    git.commit("two", a="2\n")
    git("checkout", "-q", "main")
    git.write("a", "mine\n")
    git("update-ref", "refs/remotes/origin/far", "HEAD")
    failed = []
    for arguments, code in (
        ({"branch": "topic"}, "git_failed"),
        ({"branch": "nope"}, "bad_ref"),
        ({"branch": "far"}, "bad_ref"),
        ({"branch": "topic", "create": True}, "exists"),
        ({"branch": "-f"}, "bad_ref"),
        ({"branch": "--orphan=x"}, "bad_ref"),
        ({"branch": "a..b"}, "bad_ref"),
        ({"branch": "a b", "create": True}, "bad_ref"),
        ({"branch": "a.lock", "create": True}, "bad_ref"),
        ({"branch": "HEAD", "create": True}, "bad_ref"),
        ({"branch": "@", "create": True}, "bad_ref"),
        ({"branch": "a@{1", "create": True}, "bad_ref"),
        ({"branch": "a/.b", "create": True}, "bad_ref"),
        ({"branch": ""}, "bad_ref"),
    ):
        found = await call.code("git_checkout", **arguments)
        if found != code:
            failed.append((arguments, found))
    assert failed == []
    assert (git.folder / "a").read_text() == "mine\n"
    assert git("branch", "--format=%(refname:short)") == "main\ntopic\n"
    assert not (git.folder / ".git" / "HEAD.lock").exists()


async def test_a_branch_cannot_bring_what_is_protected(call, git):
    call.jail = {"protected": [".mcp.json", ".claude/settings*.json"]}
    git.commit("one", a="1\n")
    git("checkout", "-q", "-b", "evil")
    git.commit("two", **{".claude/settings.local.json": "{}"})
    git("checkout", "-q", "main")
    assert await call.code("git_checkout", branch="evil") == "protected_path"
    assert not (git.folder / ".claude").exists()
    git("checkout", "-q", "evil")
    assert await call.code("git_checkout", branch="main") == "protected_path"


async def test_a_branch_of_another_work_tree_is_left_alone(call, git, project):
    git.commit("one", a="1\n")
    git("worktree", "add", "-q", "-b", "topic", "tree")
    assert await call.code("git_checkout", branch="topic") == "git_failed"
    assert await call.code("git_checkout", branch="main", repo="tree") == "git_failed"
    assert await call("git_checkout", branch="side", create=True, repo="tree") == "Created and switched to side"
    assert git("symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert git("-C", "tree", "symbolic-ref", "HEAD") == "refs/heads/side\n"
    git.write("tree/a", "2\n")
    await call("git_add", paths=["tree/a"], repo="tree")
    assert " on side: x" in await call("git_commit", message="x", repo="tree")
    assert git("log", "--format=%s", "side") == "x\none\n"


@pytest.mark.parametrize("lock", ["HEAD.lock", "index.lock"])
async def test_another_git_at_work_is_told(call, git, lock):
    git.commit("one", a="1\n")
    git("branch", "topic")
    git.write(f".git/{lock}", "")
    answer = await call("git_checkout", branch="topic")
    assert answer["code"] == "git_failed"
    assert str(git.folder) not in answer["error"]
    assert git("symbolic-ref", "HEAD") == "refs/heads/main\n"
