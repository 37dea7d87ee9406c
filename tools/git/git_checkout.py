"""git_checkout."""

import os
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.git_refs import GitRef
from ...safety.git_repo import Repository
from ...safety.paths import ProjectPath
from ...safety.text import visible_name
from ...sandbox.git import GitChange
from ..base import Access, tool
from ..results import Text
from ..services import GitReads, GitWrites


@tool(Access.WRITE, deadline=lambda settings, given: 6 * settings.command_timeout)
async def git_checkout(
    reads: GitReads,
    writes: GitWrites,
    branch: Annotated[GitRef, Field(description="a tag or commit leaves HEAD detached")],
    create: Annotated[bool, Field(description="make the branch, at the current commit")] = False,
    repo: ProjectPath = ".",  # type: ignore[assignment]
) -> Text:
    """Switch to another branch. Local changes in the way make it fail."""
    at = await reads.repository(repo)
    async with writes.changing(at) as change:
        if create:
            await _create(change, branch)
            return Text(f"Created and switched to {branch}")
        local, commit = await _target(change, branch)
        if local and (other := _elsewhere(at, local)):
            raise ToolError(Code.GIT_FAILED, f"{local} is checked out in another work tree ({other})")
        await _check_protected(change, at, commit)
        where = [local] if local else ["--detach", commit]
        await change.run("checkout", "--quiet", "--no-guess", "--no-recurse-submodules", "--no-progress", *where, "--")
    return Text(f"Switched to {local or f'{commit[:8]} (detached)'}")


async def _create(change: GitChange, branch: str) -> None:
    name = f"refs/heads/{branch}"
    wrong = await change.run("check-ref-format", name, codes=(0, 1))
    if wrong.code or branch in ("HEAD", "@"):
        raise ToolError(Code.BAD_REF, f"{branch} cannot be the name of a branch")
    there = await change.run("rev-parse", "--verify", "--quiet", "--end-of-options", name, codes=(0, 1))
    if there.code == 0:
        raise ToolError(Code.EXISTS, f"there is a branch {branch} already", "leave create out to switch to it")
    await change.run("checkout", "--quiet", "--no-track", "--no-recurse-submodules", "-b", branch, "--")


async def _target(change: GitChange, branch: str) -> tuple[str | None, str]:
    """Return the local branch that is meant, None for another commit, and the commit."""
    own = f"refs/heads/{branch}^{{commit}}"
    found = await change.run("rev-parse", "--verify", "--quiet", "--end-of-options", own, codes=(0, 1, 128))
    if found.code == 0:
        return branch, found.text.strip()
    try:
        commit = await change.run("rev-parse", "--verify", "--end-of-options", f"{branch}^{{commit}}")
    except ToolError as failure:
        if failure.code not in (Code.BAD_REF, Code.GIT_FAILED):
            raise
        raise ToolError(
            Code.BAD_REF, f"there is no branch, tag or commit {branch}", "git_branch lists them; create makes one"
        ) from None
    named = await change.run("rev-parse", "--symbolic-full-name", "--end-of-options", branch, codes=(0, 1, 128))
    # `@{-1}` names a branch without being its name.
    name = named.text.strip().rpartition("\n")[2]
    return name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else None, commit.text.strip()


def _elsewhere(repo: Repository, branch: str) -> str | None:
    """Return the name of another work tree of the repository that has a branch checked out."""
    others = {"main": repo.common_dir}
    trees = os.path.join(repo.common_dir, "worktrees")
    if os.path.isdir(trees) and not os.path.islink(trees):
        others |= {name: os.path.join(trees, name) for name in os.listdir(trees)}
    for name, folder in others.items():
        if os.path.realpath(folder) == os.path.realpath(repo.git_dir):
            continue
        try:
            fd = os.open(os.path.join(folder, "HEAD"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        with os.fdopen(fd, "rb") as file:
            if os.fsdecode(file.read(4096)).strip() == f"ref: refs/heads/{branch}":
                return visible_name(name)
    return None


async def _check_protected(change: GitChange, repo: Repository, commit: str) -> None:
    """Refuse a commit whose checkout would write what is never written. ToolError protected_path."""
    born = await change.run("rev-parse", "--verify", "--quiet", "HEAD", codes=(0, 1))
    since = ["HEAD", commit] if born.code == 0 else ["--cached", commit]
    flags = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty")
    done = await change.run("diff", *flags, "--end-of-options", *since, "--")
    tree = repo.work_tree
    protected = tree.roots.protected
    for name in os.fsdecode(done.out).split("\0"):
        if name and (why := protected.name_refusal(tree.root.path, (*tree.parts, *name.split("/")))):
            shown = visible_name(repo.prefix + name)
            raise ToolError(Code.PROTECTED_PATH, f"the checkout would change {shown}, which is protected: {why}")
