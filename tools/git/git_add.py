"""git_add."""

import os
from collections.abc import Sequence

from ...safety.errors import Code, ToolError
from ...safety.git_refs import GitPaths
from ...safety.git_repo import Repository
from ...safety.paths import ProjectPath
from ...safety.text import visible_name
from ...sandbox.git import GitChange
from ..base import Access, tool
from ..results import Text
from ..services import GitReads, GitWrites
from ._status import shown, state

_NAMED = 5


@tool(
    Access.WRITE,
    deadline=lambda settings, given: 6 * settings.command_timeout,
    destructive_hint=False,
    idempotent_hint=True,
)
async def git_add(
    reads: GitReads,
    writes: GitWrites,
    paths: GitPaths,
    repo: ProjectPath = ".",  # type: ignore[assignment]
) -> Text:
    """Stage files, or all changes below folders, for the next commit. Deleted files are staged as deleted."""
    at = await reads.repository(repo)
    names = [at.inside(each) for each in paths]
    notes: list[str] = []
    async with writes.changing(at) as change:
        files, apart = await _files(change, at, names)
        if apart:
            notes.append(f"... ({_some(at, apart)}: a repository of its own, not staged) ...")
        if files:
            stdin = b"".join(os.fsencode(name) + b"\0" for name in files)
            if filtered := await _filtered(change, stdin):
                notes.append(f"... ({_some(at, filtered)}: staged as it is, as no filter of the repository runs) ...")
            await change.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=stdin)
    found = await state(reads, at, names)
    rows = [(mark, path) for mark, path in found.rows if mark[0] not in " ?!"]
    return Text(
        "\n".join(["Staged:", shown(rows) or "(nothing differs from the last commit)", *notes]), "git_status shows it"
    )


async def _files(change: GitChange, repo: Repository, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the changed files below some names, and what of them git would only record as another repository."""
    tree = repo.work_tree.absolute
    gone = [name for name in names if not _exists(tree, name)]
    if gone:
        known = await _listed(change, "--cached", names=gone)
        for name in gone:
            if not any(each == name or each.startswith(name + "/") for each in known):
                place = visible_name(repo.prefix + name)
                raise ToolError(
                    Code.NOT_FOUND, f"there is no {place}, and git tracks none", "git_status shows what changed"
                )
    changed = await _listed(change, "--modified", "--deleted", "--others", "--exclude-standard", names=names)
    single = [name for name in names if name not in gone and name not in changed and not _is_folder(tree, name)]
    if single:
        tracked = set(await _listed(change, "--cached", names=single))
        if ignored := [name for name in single if name not in tracked]:
            raise ToolError(Code.GIT_FAILED, f"{_some(repo, ignored)} is ignored by .gitignore, or is no file or link")
    apart = [name for name in changed if name.endswith("/") or _is_folder(tree, name)]
    return [name for name in changed if name not in apart], apart


async def _listed(change: GitChange, *flags: str, names: Sequence[str]) -> list[str]:
    done = await change.run("ls-files", "-z", *flags, "--", *names)
    return list(dict.fromkeys(name for name in os.fsdecode(done.out).split("\0") if name))


async def _filtered(change: GitChange, stdin: bytes) -> list[str]:
    """Return the files for which the repository names a filter, such as lfs."""
    done = await change.run("check-attr", "-z", "--stdin", "filter", stdin=stdin)
    fields = os.fsdecode(done.out).split("\0")
    rows = zip(fields[::3], fields[2::3], strict=False)
    return [name for name, value in rows if value not in ("unspecified", "unset", "set")]


def _exists(tree: str, name: str) -> bool:
    return os.path.lexists(os.path.join(tree, name))


def _is_folder(tree: str, name: str) -> bool:
    path = os.path.join(tree, name)
    return os.path.isdir(path) and not os.path.islink(path)


def _some(repo: Repository, names: Sequence[str]) -> str:
    shown_names = ", ".join(visible_name(repo.prefix + name) for name in names[:_NAMED])
    return shown_names + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
