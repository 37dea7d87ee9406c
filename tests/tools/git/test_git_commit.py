import re
from pathlib import Path

import pytest


async def test_commits_what_is_staged_and_says_who_did(call, git):
    git.write("a", "1\n")
    assert await call.code("git_commit", message="x") == "no_change"
    await call("git_add", paths=["a"])
    answer = await call("git_commit", message="subject\n\n# not a comment\n\nbody")
    commit = git("rev-parse", "--short", "HEAD").strip()
    assert answer == f"Committed {commit} on main: subject\nby toolbox-mcp <toolbox-mcp@localhost>"
    who = "toolbox-mcp <toolbox-mcp@localhost>"
    assert (
        git("log", "-1", "--format=%an <%ae>%n%cn <%ce>%n%B") == f"{who}\n{who}\nsubject\n\n# not a comment\n\nbody\n\n"
    )
    assert git("status", "--porcelain") == ""
    assert re.fullmatch(r"\w+ HEAD@\{0\}: commit \(initial\): subject\n", git("reflog"))
    assert await call.code("git_commit", message="x") == "no_change"


async def test_refuses_messages_that_say_nothing(call, git):
    for message, code in (("", "empty_message"), (" \n", "empty_message"), ("a\0b", "invalid_args")):
        assert await call.code("git_commit", message=message) == code


async def test_a_message_is_no_option(call, git):
    git.write("a", "")
    await call("git_add", paths=["a"])
    await call("git_commit", message="--amend")
    assert git("log", "--format=%s") == "--amend\n"


async def test_the_identity_is_the_setting_else_the_operators(call, git, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "more").write_text("[user]\n\temail = o@example.org\n")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Op <erator>\n[include]\n\tpath = more\n[alias]\n\tcommit = !touch x\n"
    )
    git("config", "user.name", "Repository")
    git("config", "user.email", "repo@example.org")
    call.git_settings = {"home": str(home)}
    git.write("a", "")
    await call("git_add", paths=["a"])
    assert (await call("git_commit", message="x")).endswith("\nby Op erator <o@example.org>")


async def test_the_setting_names_who_commits(call, git):
    call.git_settings = {"author": "Ann Other <ann@example.org>"}
    git.write("a", "")
    await call("git_add", paths=["a"])
    assert (await call("git_commit", message="x")).endswith("\nby Ann Other <ann@example.org>")


async def test_hooks_run_only_where_the_operator_says_so(call, git):
    hook = git.write(".git/hooks/pre-commit", f"#!/bin/sh\ntouch {git.folder}/ran\necho hooked >&2\nexit 1\n")
    hook.chmod(0o755)
    git.write("a", "")
    await call("git_add", paths=["a"])
    await call("git_commit", message="x")
    assert not (git.folder / "ran").exists()


async def test_a_hook_that_refuses_is_told(call, git):
    call.git_settings = {"hooks": True, "env": {"PATH": "/usr/bin:/bin"}}
    git("config", "core.hooksPath", "ours")
    git.write("ours/pre-commit", "#!/bin/sh\necho hooked >&2\nexit 1\n").chmod(0o755)
    git.write("a", "")
    await call("git_add", paths=["a"])
    answer = await call("git_commit", message="x")
    assert (answer["code"], answer["error"]) == ("git_failed", "git commit: hooked")


@pytest.mark.slow
async def test_at_the_deadline_all_that_a_hook_started_is_killed_and_no_lock_stays(call, git):
    call.git_settings = {"hooks": True, "timeout": 1.5, "env": {"PATH": "/usr/bin:/bin"}}
    script = "#!/bin/sh\n(trap '' TERM; setsid sleep 300 & echo $! >> pids; sleep 300) &\necho $! >> pids\nwait\n"
    git.write(".git/hooks/pre-commit", script).chmod(0o755)
    git.write("a", "")
    await call("git_add", paths=["a"])
    assert await call.code("git_commit", message="x") == "timeout"
    pids = (git.folder / "pids").read_text().split()
    assert len(pids) == 2
    assert [pid for pid in pids if Path("/proc", pid).exists()] == []
    assert not list((git.folder / ".git").rglob("*.lock"))
    (git.folder / ".git/hooks/pre-commit").unlink()
    assert "Committed " in await call("git_commit", message="x")


async def test_commits_on_a_detached_head(call, git):
    git.commit("one", a="1\n")
    git("checkout", "-q", "--detach")
    git.write("a", "2\n")
    await call("git_add", paths=["a"])
    assert " on a detached HEAD: x\n" in await call("git_commit", message="x")
    assert git("log", "--format=%s") == "x\na commit\n" or git("log", "--format=%s") == "x\none\n"
    assert git("rev-parse", "HEAD~1") == git("rev-parse", "main")


async def test_a_merge_under_way_is_committed_as_one(call, git):
    git.commit("one", a="1\n")
    git("checkout", "-q", "-b", "topic")
    git.commit("two", a="2\n")
    git("checkout", "-q", "main")
    git.commit("three", a="3\n")
    git("merge", "-q", "topic", code=1)
    assert await call("git_status") == "## main\nUU a"
    assert await call.code("git_commit", message="x") == "git_failed"
    git.write("a", "4\n")
    await call("git_add", paths=["a"])
    await call("git_commit", message="merged")
    assert len(git("log", "-1", "--format=%P").split()) == 2
    assert not (git.folder / ".git" / "MERGE_HEAD").exists()
    assert git("status") == "On branch main\nnothing to commit, working tree clean\n"
