"""lint."""

import json
import os
import re
import stat
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Annotated, NamedTuple

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import ProjectPath
from ...safety.text import clean
from ...sandbox.process.runner import Finished
from ..base import Access, tool
from ..blocking import run_read
from ..results import Text
from ..services import Settings, Toolchains
from ._run import Project, insist, nearest, operand, report, written

LINTERS = ("rubocop", "standard", "ruff")

MAX_SYNTAX_ERRORS = 3
"""Syntax errors in a row that are shown of a file: the first makes the others."""

SHOW_FILES_TIMEOUT = 4.0
"""Seconds for ruff to list files, which it has just walked: less than what the call has beyond toolchain_timeout."""


class _Report(NamedTuple):
    """What a linter's report says, None where it does not: offenses left, lines to show instead, files inspected.

    rules: for each offense its rule, and its place.
    """

    offenses: int | None = None
    text: str | None = None
    files: int | None = None
    rules: tuple[tuple[str, str], ...] = ()


@tool(Access.EXEC, deadline=lambda settings, given: settings.toolchain_timeout + 5)
async def lint(
    toolchains: Toolchains,
    settings: Settings,
    path: Annotated[ProjectPath | None, Field(description="file, folder or sub-project")] = None,
    linter: Annotated[str | None, Field(description="rubocop, standard or ruff")] = None,
    autocorrect: bool = False,
) -> Text:
    """Run the linter of the project (rubocop, standard or ruff) and list the offenses; autocorrect changes files."""
    folder = await run_read(lambda stop: nearest(path, Project.is_marked))
    folder = folder if folder and folder.parts else None
    base = folder.absolute if folder else toolchains.cwd
    project = Project(base)
    inner = path if path and (folder is None or path.absolute != folder.absolute) else None
    chosen = linter or await run_read(lambda stop: _detect(project, inner, settings.ignored_dirs))
    if chosen not in LINTERS:
        raise ToolError(Code.BAD_LINTER, f"{chosen} is not a linter that is known here", f"one of {', '.join(LINTERS)}")
    if path:
        await run_read(lambda stop: insist(path))
    where = [operand(inner, folder)] if inner else []
    with tempfile.TemporaryDirectory(prefix="toolbox-report-") as reports:
        file = os.path.join(reports, "report")
        if chosen == "ruff":
            argv = ["ruff", "check", *(["--fix"] * autocorrect), *where]
            # A project may ask for fixes in its own settings.
            extra = ["--output-format=json", f"--output-file={file}", *([] if autocorrect else ["--no-fix"])]
        else:
            fix = {"rubocop": "--autocorrect", "standard": "--fix"}[chosen]
            gem, name = {"rubocop": ("rubocop", "rubocop"), "standard": ("standard", "standardrb")}[chosen]
            argv = project.bundled([name, "--no-color", "--format=simple", *([fix] * autocorrect), *where], gem)
            extra = ["--format=json", f"--out={file}"]
        done = await toolchains.run([*argv, *extra], timeout=settings.toolchain_timeout, work_dir=folder)
        read = partial(_ruff, base) if chosen == "ruff" else _rubocop
        found = await run_read(lambda stop: read(written(file)))
    if found.text is not None:
        done = replace(done, stdout=replace(done.stdout, text=found.text))
    headline = _headline(done, found.offenses)
    if headline == "LINT CLEAN":
        inspected = found.files
        if chosen == "ruff" and found.offenses is not None:
            # Its report is the same list, empty, whether it has looked at many files or at none.
            listed = await toolchains.run(
                [*argv[:2], "--show-files", *where], timeout=SHOW_FILES_TIMEOUT, work_dir=folder
            )
            inspected = _shown(listed, path)
        if inspected == 0:
            note = f"{chosen} inspected no file: this says nothing about the code"
            return report("LINT ERROR", argv, done, note, folder=folder)
    return report(headline, argv, done, folder=folder, shorter=_by_rule(found.rules) if found.rules else None)


def _by_rule(rules: Sequence[tuple[str, str]]) -> str:
    """Return the count of each broken rule, the most frequent first, and where first."""
    counts = Counter(rule for rule, _ in rules)
    first = {rule: place for rule, place in reversed(rules)}
    return "".join(f"{rule}: {count} (first: {first[rule]})\n" for rule, count in counts.most_common())


def _detect(project: Project, path: JailedPath | None, ignored: Collection[str]) -> str:
    if project.has(".standard.yml"):
        return "standard"
    tables = re.search(
        r"^\[(?:tool\.ruff|project|tool\.poetry|build-system)\b", project.text("pyproject.toml"), re.MULTILINE
    )
    if project.has("ruff.toml") or project.has(".ruff.toml") or tables:
        return "ruff"
    extensions = _extensions(project, path, ignored)
    ruby = ".rb" in extensions or (path is None and any(map(project.has, (".rubocop.yml", "Gemfile", "Rakefile"))))
    if not ruby and project.has("package.json") and ".py" not in extensions:
        raise ToolError(
            Code.BAD_LINTER,
            f"nothing here is for {', '.join(LINTERS)}",
            'package.json may have a script: bash {"command": "npm", "args": ["run", "lint"]}',
        )
    return "ruff" if ".py" in extensions and not ruby else "rubocop"


def _extensions(project: Project, path: JailedPath | None, ignored: Collection[str]) -> set[str]:
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


def _without_echoes(rows: Iterable[tuple[str, int, int, str]]) -> Iterator[str]:
    """Yield a line for each offense; of the errors that follow from a syntax error in the same file only how many."""
    for (name, broken), group in groupby(rows, key=lambda each: (each[0], each[3].startswith("invalid-syntax"))):
        each = list(group)
        shown = each[:MAX_SYNTAX_ERRORS] if broken else each
        yield from (f"{name}:{row}:{column}: {text}\n" for _, row, column, text in shown)
        if len(each) > len(shown):
            yield f"{name}: ... {len(each) - len(shown)} more syntax errors behind the first\n"


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
    text = clean("".join(_without_echoes(rows)))
    return _Report(len(rows), text, rules=tuple((text.split()[0], f"{name}:{row}") for name, row, _, text in rows))


def _shown(listed: Finished, path: JailedPath | None) -> int | None:
    """Return the number of files with code that ruff lists, or 1 for a file that was asked for by its path.

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
        rows = [
            (
                str(file["path"]),
                int(offense["location"]["line"]),
                int(offense["location"]["column"]),
                str(offense["cop_name"]),
                f"{'[correctable] ' if offense.get('correctable') else ''}{offense['message']}",
            )
            for file in whole["files"]
            for offense in file["offenses"]
            if not offense.get("corrected")
        ]
        corrected = sum(bool(offense.get("corrected")) for file in whole["files"] for offense in file["offenses"])
        files = whole.get("summary", {}).get("inspected_file_count")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return _Report()
    lines = [f"{name}:{line}:{column}: {cop} {message}\n" for name, line, column, cop, message in rows]
    if corrected:
        lines.append(f"{corrected} corrected\n")
    rules = tuple((cop, f"{name}:{line}") for name, line, _, cop, _ in rows)
    return _Report(len(rows), clean("".join(lines)), files, rules)
