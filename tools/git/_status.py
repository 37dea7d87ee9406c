"""The state of a work tree as rows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...safety.git_repo import Repository
from ...safety.text import clean, visible_name
from ...sandbox.git import GitReads

MAX_ROWS = 200
"""Rows that are shown one by one; of more, folders are counted. A guess at what a reader goes through."""
MAX_FOLDERS = 40


@dataclass(frozen=True)
class State:
    """branch: git's line about it, without `## `. rows: `XY PATH`."""

    branch: str
    rows: Sequence[tuple[str, str]]


async def state(git: GitReads, repo: Repository, paths: Sequence[str] = ()) -> State:
    """Return the state of a work tree, or of some of its paths.

    Nothing of a submodule is looked at: git would run itself there, by that repository's own configuration.
    """
    done = await git.run(
        repo,
        "status",
        "--porcelain=v1",
        "--branch",
        "-z",
        "--untracked-files=all",
        "--ignore-submodules=all",
        paths=paths,
    )
    fields = done.out.decode("utf-8", "surrogateescape").split("\0")
    branch = clean(fields[0].removeprefix("## ")) if fields[0].startswith("## ") else ""
    rows = []
    rest = iter(fields[1:])
    for each in rest:
        if not each:
            continue
        mark, path = each[:2], visible_name(repo.prefix + each[3:])
        if mark[0] in "RC" or mark[1] in "RC":
            path = f"{visible_name(repo.prefix + next(rest, ''))} -> {path}"
        rows.append((mark, path))
    return State(branch, rows)


def shown(rows: Sequence[tuple[str, str]]) -> str:
    """Return rows as text; many of them by folder."""
    if len(rows) <= MAX_ROWS:
        return "\n".join(f"{mark} {path}" for mark, path in rows)
    kinds = Counter(mark for mark, _ in rows)
    lines = [f"{len(rows)} entries: " + ", ".join(f"{count} {mark!r}" for mark, count in kinds.most_common())]
    folders = Counter((mark, path.rpartition(" -> ")[2].rpartition("/")[0]) for mark, path in rows)
    first = sorted(folders.items(), key=lambda item: (-item[1], item[0]))
    single = {key for key, count in first if count == 1}
    names = {(mark, path.rpartition(" -> ")[2].rpartition("/")[0]): path for mark, path in rows}
    for key, count in first[:MAX_FOLDERS]:
        mark, folder = key
        lines.append(f"{mark} {names[key]}" if key in single else f"{mark} {folder or '.'}/ ({count} entries)")
    if len(first) > MAX_FOLDERS:
        left = sum(count for _, count in first[MAX_FOLDERS:])
        lines.append(f"... and {left} entries in {len(first) - MAX_FOLDERS} more folders")
    lines.append("... git_status shows one folder with path, and every entry with start_line=1 ...")
    return "\n".join(lines)
