"""lint."""

import json
import os
import re
import stat
import tempfile
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import Place
from ...safety.paths import ProjectPath
from ...safety.text import clean
from ...sandbox.process.runner import Finished
from ..base import Access, tool
from ..blocking import reading
from ..results import Text
from ..services import Progress, Settings, Toolchains
from ._run import Project, insist, operand, report, run, written

LINTERS = ("rubocop", "standard", "ruff")

SHOW_FILES_TIMEOUT = 4.0
"""Seconds for ruff to list files, which it has just walked: less than what the call has beyond toolchain_timeout."""


class _Report(NamedTuple):
    """What a linter's report says, None where it does not: offenses left, lines to show instead, files inspected."""

    offenses: int | None = None
    text: str | None = None
    files: int | None = None


@tool(Access.EXEC, deadline=lambda settings, given: settings.toolchain_timeout + 5)
async def lint(
    toolchains: Toolchains,
    settings: Settings,
    progress: Progress,
    path: ProjectPath | None = None,
    linter: str | None = None,
    autocorrect: bool = False,
) -> Text:
    """Run the project's linter (rubocop, standard or ruff) and list the offenses; autocorrect changes files."""
    project = Project(toolchains.cwd)
    chosen = linter or await reading(lambda stop: _detect(project, path, settings.ignored_dirs))
    if chosen not in LINTERS:
        raise ToolError(Code.BAD_LINTER, f"{chosen} is not a linter that is known here", f"one of {', '.join(LINTERS)}")
    if path:
        await reading(lambda stop: insist(path))
    where = [operand(path)] if path else []
    with tempfile.TemporaryDirectory(prefix="toolbox-report-") as folder:
        file = os.path.join(folder, "report")
        if chosen == "ruff":
            argv = ["ruff", "check", *(["--fix"] * autocorrect), *where]
            extra = ["--output-format=json", f"--output-file={file}"]
        else:
            fix = {"rubocop": "--autocorrect", "standard": "--fix"}[chosen]
            gem, name = {"rubocop": ("rubocop", "rubocop"), "standard": ("standard", "standardrb")}[chosen]
            argv = project.bundled([name, "--no-color", "--format=simple", *([fix] * autocorrect), *where], gem)
            extra = ["--format=json", f"--out={file}"]
        done = await run(toolchains, progress, [*argv, *extra], settings.toolchain_timeout)
        read = partial(_ruff, toolchains.cwd) if chosen == "ruff" else _rubocop
        found = await reading(lambda stop: read(written(file)))
    if found.text is not None:
        done = replace(done, stdout=replace(done.stdout, text=found.text))
    headline = _headline(done, found.offenses)
    if headline == "LINT CLEAN":
        inspected = found.files
        if chosen == "ruff" and found.offenses is not None:
            # Its report is the same list, empty, whether it has looked at many files or at none.
            listed = await run(toolchains, progress, [*argv[:2], "--show-files", *where], SHOW_FILES_TIMEOUT)
            inspected = _shown(listed, path)
        if inspected == 0:
            return report(
                "LINT ERROR", argv, done, note=f"{chosen} inspected no file: this says nothing about the code"
            )
    return report(headline, argv, done)


def _detect(project: Project, path: Place | None, ignored: Collection[str]) -> str:
    if project.has(".standard.yml"):
        return "standard"
    tables = re.search(
        r"^\[(?:tool\.ruff|project|tool\.poetry|build-system)\b", project.text("pyproject.toml"), re.MULTILINE
    )
    if project.has("ruff.toml") or project.has(".ruff.toml") or tables:
        return "ruff"
    extensions = _extensions(project, path, ignored)
    ruby = ".rb" in extensions or (path is None and any(map(project.has, (".rubocop.yml", "Gemfile", "Rakefile"))))
    return "ruff" if ".py" in extensions and not ruby else "rubocop"


def _extensions(project: Project, path: Place | None, ignored: Collection[str]) -> set[str]:
    if path is None:
        return project.extensions(ignored)
    status = path.stat()
    if status and stat.S_ISREG(status.st_mode):
        return {os.path.splitext(path.name)[1]}
    return Project(str(path.path)).extensions(ignored)


def _headline(done: Finished, offenses: int | None) -> str:
    if done.timed_out or done.exit_code not in (0, 1):
        return "LINT ERROR"
    if done.exit_code == 0 and not offenses:
        return "LINT CLEAN"
    return f"LINT: offenses found ({offenses})" if offenses else "LINT ERROR"


def _ruff(base: str, found: bytes) -> _Report:
    """Read a report of ruff's; its lines are as ruff prints them for people."""
    try:
        rows = [
            (
                os.path.relpath(each["filename"], base),
                int(each["location"]["row"]),
                int(each["location"]["column"]),
                f"{each['code'] or 'invalid-syntax'} {'[*] ' if each.get('fix') else ''}{each['message']}",
            )
            for each in json.loads(found)
        ]
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return _Report()
    return _Report(len(rows), clean("".join(f"{name}:{row}:{column}: {text}\n" for name, row, column, text in rows)))


def _shown(listed: Finished, path: Place | None) -> int | None:
    """Return how many files with code ruff lists, or 1 for a file that was asked for by its path.

    It also checks configuration files and takes Markdown, which most projects have whatever their language.
    """
    if listed.exit_code != 0:
        return None
    names = [os.path.basename(line) for line in listed.stdout.text.splitlines()]
    return sum(not name.endswith((".toml", ".md")) or (path is not None and name == path.name) for name in names)


def _rubocop(found: bytes) -> _Report:
    """Read a report of rubocop's; what was corrected is no offense."""
    try:
        whole = json.loads(found)
        offenses = sum(not offense.get("corrected") for file in whole["files"] for offense in file["offenses"])
        return _Report(offenses, files=whole.get("summary", {}).get("inspected_file_count"))
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return _Report()
