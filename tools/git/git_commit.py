"""git_commit."""

from ...safety.errors import Code, ToolError
from ...safety.git_refs import CommitMessage
from ...safety.paths import ProjectPath
from ...safety.text import clean
from ..base import Access, tool
from ..results import Text
from ..services import GitReads, GitWrites


@tool(Access.WRITE, deadline=lambda settings, given: 6 * settings.command_timeout, destructive_hint=False)
async def git_commit(
    reads: GitReads,
    writes: GitWrites,
    message: CommitMessage,
    repo: ProjectPath = ".",  # type: ignore[assignment]
) -> Text:
    """Commit what git_add staged."""
    at = await reads.repository(repo)
    name, mail = await writes.identity()
    async with writes.changing(at) as change:
        flags = ("--cached", "--quiet", "--no-ext-diff", "--ignore-submodules=dirty")
        differs = await change.run("diff", *flags, codes=(0, 1))
        if differs.code == 0 and not change.merging:
            raise ToolError(Code.NO_CHANGE, "nothing is staged", "git_add stages changes")
        hooks = [] if writes.runs_hooks else ["--no-verify"]
        who = {
            "GIT_AUTHOR_NAME": name,
            "GIT_AUTHOR_EMAIL": mail,
            "GIT_COMMITTER_NAME": name,
            "GIT_COMMITTER_EMAIL": mail,
        }
        args = ("--quiet", "--no-gpg-sign", "--cleanup=whitespace", *hooks, "--file=-")
        await change.run("commit", *args, stdin=message.encode(), env=who)
        made = await change.run("log", "-1", "--format=%h%x00%s", "--no-show-signature", "--end-of-options", "HEAD")
        branch = (await change.run("rev-parse", "--abbrev-ref", "HEAD")).text.strip()
    commit, _, subject = made.out.decode("utf-8", "replace").rstrip("\n").partition("\0")
    where = "a detached HEAD" if branch == "HEAD" else branch
    return Text(f"Committed {commit} on {where}: {clean(subject)}\nby {name} <{mail}>")
