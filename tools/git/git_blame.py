"""git_blame."""

import os
import time
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.paths import ProjectPath
from ...safety.text import clean, visible
from ..base import Access, tool
from ..read._answer import Lines
from ..results import Text
from ..services import GitReads

Line = Annotated[int | None, Field(ge=1)]


@tool(Access.READ, deadline=lambda settings, given: 3 * settings.command_timeout)
async def git_blame(
    git: GitReads,
    path: ProjectPath,
    start_line: Line = None,
    end_line: Line = None,
    repo: ProjectPath = ".",  # type: ignore[assignment]
) -> Lines | Text:
    """Show for each line of a file which commit and author changed it last."""
    if start_line and end_line and start_line > end_line:
        raise ToolError(Code.EMPTY_RANGE, f"line {start_line} is after line {end_line}")
    at = await git.repository(repo)
    name = at.inside(path)
    os.close(path.open_file())
    args = ["--porcelain", "--no-progress"]
    if start_line or end_line:
        args.append(f"-L{start_line or 1},{end_line or ''}")
    try:
        done = await git.run(at, "blame", *args, paths=[name])
    except ToolError as failure:
        if "has only" in failure.error:
            lines = failure.error.rpartition("has only ")[2]
            raise ToolError(
                Code.EMPTY_RANGE, f"line {start_line or 1} is after the end of {path.shown}: {lines}"
            ) from None
        if "no such path" in failure.error or "cannot stat path" in failure.error:
            raise ToolError(
                Code.NOT_A_FILE, f"{path.shown} is not tracked by git", "git_status shows what is not"
            ) from None
        raise
    rows = _rows(done.out.decode("utf-8", "replace"))
    first = start_line or 1
    return Lines(rows, first, None if end_line else first + len(rows) - 1) if rows else Text("(empty file)")


def _rows(porcelain: str) -> list[str]:
    known: dict[str, dict[str, str]] = {}
    rows = []
    commit, number = "", ""
    for line in porcelain.split("\n"):
        if line.startswith("\t"):
            of = known[commit]
            day = _day(of)
            who = clean(of.get("author", "")).replace("\n", " ")
            rows.append(f"{commit[:8]} ({who} {day}) {number}: {visible(line[1:].removesuffix(chr(13)))}")
            commit = ""
        elif not commit:
            if not line:
                continue
            commit, _, rest = line.partition(" ")
            number = rest.split(" ")[1]
            known.setdefault(commit, {})
        else:
            key, _, value = line.partition(" ")
            known[commit][key] = value
    return rows


def _day(of: Mapping[str, str]) -> str:
    """Return the day of a commit where its author was; a commit may hold any number."""
    try:
        return time.strftime(
            "%Y-%m-%d", time.gmtime(int(of.get("author-time", "0")) + _offset(of.get("author-tz", "")))
        )
    except (ValueError, OverflowError, OSError):
        return "????-??-??"


def _offset(zone: str) -> int:
    """Return the seconds of a zone such as `+0130`."""
    if len(zone) != 5 or not zone[1:].isdigit():
        return 0
    seconds = int(zone[1:3]) * 3600 + int(zone[3:]) * 60
    return -seconds if zone[0] == "-" else seconds
