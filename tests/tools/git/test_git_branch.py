async def test_lists_branches_and_marks_the_current_one(call, git):
    assert await call("git_branch") == "* main (no commits yet)"
    commit = git.commit()
    git("branch", "topic/x")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    assert await call("git_branch") == "* main\n  topic/x"
    everything = "* main\n  topic/x\n  remotes/origin/HEAD -> origin/main\n  remotes/origin/main"
    assert await call("git_branch", all=True) == everything
    git("checkout", "-q", "--detach")
    assert await call("git_branch") == f"* (detached at {commit[:7]})\n  main\n  topic/x"
