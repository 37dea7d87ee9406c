"""lint."""

import json
import os
import re
import stat
import tempfile
from collections.abc import Collection
from functools import partial
from pathlib import Path

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.safety.paths import ProjectPath
from toolbox_mcp.safety.roots import Place
from toolbox_mcp.sandbox.runner import Finished
from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.results import Text
from toolbox_mcp.tools.services import Progress, Settings, Toolchains
from toolbox_mcp.tools.threads import Stop, reading
from toolbox_mcp.tools.verify.running import Project, insist, operand, report, run

LINTERS = ("rubocop", "standard", "ruff")


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
        file = Path(folder, "report")
        if chosen == "ruff":
            argv = [project.program("ruff"), "check", "--output-format=concise", *(["--fix"] * autocorrect), *where]
            extra: list[str] = []
        else:
            fix = {"rubocop": "--autocorrect", "standard": "--fix"}[chosen]
            gem, name = {"rubocop": ("rubocop", "rubocop"), "standard": ("standard", "standardrb")}[chosen]
            argv = project.bundled([name, "--no-color", "--format=simple", *([fix] * autocorrect), *where], gem)
            extra = ["--format=json", f"--out={file}"]
        done = await run(toolchains, progress, [*argv, *extra], settings.toolchain_timeout)
        written = await reading(partial(_read, file)) if extra else ""
    offenses = _reported(written) if extra else _ruff(done)
    return report(_headline(done, offenses), argv, done)


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


def _ruff(done: Finished) -> int | None:
    """Return how many offenses are left, off ruff's last line: `Found 3 errors (2 fixed, 1 remaining).`"""
    found = re.findall(r"^Found (\d+) errors?(?: \(\d+ fixed, (\d+) remaining\))?\.", done.stdout.text, re.MULTILINE)
    return int(found[-1][1] or found[-1][0]) if found else None


def _reported(written: str) -> int | None:
    """Return how many offenses a report of rubocop's counts that were not corrected."""
    try:
        files = json.loads(written)["files"]
        return sum(not offense.get("corrected") for file in files for offense in file["offenses"])
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None


def _read(file: Path, stop: Stop) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
