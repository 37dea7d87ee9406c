"""Test suites: which one a project has, how it is run, and how many tests it says passed."""

import json
import os
import re
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import Place
from ...sandbox.process.runner import Finished
from ...sandbox.programs import Toolchains
from ..blocking import reading
from ..progress import Progress
from ..results import Text
from ..settings import ToolSettings
from . import _counts as counting
from ._counts import NONE_RAN, Counts, headline
from ._output import GoEvents, Summary, SummaryLines
from ._run import Project, insist, operand, report, run, written

Framework = Literal["rspec", "minitest", "pytest", "unittest", "npm", "cargo", "go"]

SELECTORS: Mapping[Framework, str] = {
    "pytest": r"::.*",
    "rspec": r"(?::\d+)+|\[[\d:,]+\]",
    "npm": r"(?::\d+)+",
    "go": r"/?\.\.\.",
}
"""What may stand behind the path of a file, or of a folder, to choose among its tests."""


@dataclass(frozen=True)
class Suite:
    """One way to run tests.

    extra: arguments behind argv that are of no interest to a reader; REPORT stands for the file of a report.
    reported: reads the counts off that file. summary: reads them off the output while it comes. nothing: exit statuses
    that say that there were no tests. failures: what the first line about a failure looks like. seeks: where the runner looks for
    which tests, told when there were none.
    """

    argv: list[str]
    extra: tuple[str, ...] = ()
    reported: Callable[[bytes], Counts | None] | None = None
    summary: Callable[[], Summary] | None = None
    nothing: tuple[int, ...] = ()
    failures: str = ""
    seeks: str = ""


async def run_suite(suite: Suite, toolchains: Toolchains, settings: ToolSettings, progress: Progress) -> Text:
    """Run a suite and report on it."""
    with tempfile.TemporaryDirectory(prefix="toolbox-report-") as folder:
        file = os.path.join(folder, "report")
        argv = [*suite.argv, *(part.replace("REPORT", file) for part in suite.extra)]
        summary = suite.summary() if suite.summary else None
        done = await run(toolchains, progress, argv, settings.toolchain_timeout, summary.feed if summary else None)
        counts = summary.counts() if summary else None
        if reported := suite.reported:
            counts = await reading(lambda stop: reported(written(file)))
    first = headline(done, counts, settings.toolchain_timeout, nothing_ran=done.exit_code in suite.nothing)
    if isinstance(summary, GoEvents):
        printed, failed = summary.printed()
        done = replace(done, stdout=printed)
        return report(first, suite.argv, done, replace(done, stdout=replace(printed, text=failed)))
    note = suite.seeks if first == NONE_RAN else ""
    return report(first, suite.argv, done, _from_first(suite.failures, done), note)


def detect(project: Project) -> Framework:
    """Return the framework that a project uses; ToolError(no_tests) where nothing tells."""
    ruby = project.has("Rakefile") or project.has("Gemfile")
    if project.has_folder("spec") or project.has(".rspec"):
        return "rspec"
    if project.has_folder("test") and ruby:
        return "minitest"
    mentioned = any("pytest" in project.text(name) for name in ("pyproject.toml", "setup.cfg", "tox.ini"))
    if project.has("pytest.ini") or project.has("conftest.py") or mentioned:
        return "pytest"
    if project.has("Cargo.toml"):
        return "cargo"
    if project.has("go.mod"):
        return "go"
    if _has_test_script(project.text("package.json")):
        return "npm"
    if project.has_folder("tests") or any(n.startswith("test") and n.endswith(".py") for n in project.names()):
        return "unittest"
    raise ToolError(
        Code.NO_TESTS, "nothing here says how its tests are run", f"framework: {', '.join(get_args(Framework))}"
    )


def exists(path: Place, framework: Framework | None = None) -> None:
    """ToolError not_found where the path for a framework, or for one that is not known yet, names nothing."""
    if "*" in path.shown and framework in (None, "minitest", "npm"):
        return  # These two take a glob as well.
    insist(path, SELECTORS.get(framework, "(?!)") if framework else "|".join(SELECTORS.values()))


def suite_of(framework: Framework, project: Project, path: Place | None, pattern: str | None = None) -> Suite:
    """Return how a framework runs the tests below path that match pattern. ToolError not_found for a missing path."""
    if path:
        exists(path, framework)
    where = [operand(path)] if path else []
    match framework:
        case "rspec":
            argv = ["rspec", "--no-color", "--format", "progress", *where]
            return Suite(
                project.bundled(argv),
                ("--format=json", "--out=REPORT"),
                reported=counting.rspec,
                failures=r"Failures:$|An error occurred ",
            )
        case "minitest":
            return Suite(
                project.bundled(["rake", "test", *(f"TEST={each}" for each in where)]),
                summary=partial(SummaryLines, r"\d+ (?:runs|tests), ", counting.minitest),
                failures=r" *(?:\d+\) )?(?:Failure|Error):",
            )
        case "pytest":
            chosen = [f"-k{pattern}"] if pattern else []
            argv = ["pytest", "-q", "--color=no", *chosen, *where]
            return Suite(
                argv,
                ("--junitxml=REPORT",),
                reported=counting.pytest,
                nothing=(5,),
                failures=r"=+ (?:FAILURES|ERRORS) =+$",
            )
        case "unittest":
            return _unittest(project, path, pattern)
        case "npm":
            return Suite(
                ["npm", "test", *(["--", *where] if where else [])],
                summary=partial(
                    SummaryLines, r"(?:#|ℹ) \w+ \d|Tests:?[ \x1b]|\d+ (?:passing|failing|pending)\b", counting.npm
                ),
                failures=r"✖ failing tests:|not ok \d| +● | +\d+ failing$| *FAIL ",
            )
        case "cargo":
            return Suite(
                ["cargo", "test", "--color=never", *_cargo_target(path)],
                summary=partial(SummaryLines, "test result: ", counting.cargo),
                failures=r"failures:$|error(?:\[E\d+\])?: ",
            )
        case "go":
            return Suite(["go", "test", "-json", _go_packages(path)], summary=GoEvents)


def _unittest(project: Project, path: Place | None, pattern: str | None) -> Suite:
    argv = ["python3", "-m", "unittest"]
    status = path.stat() if path else None
    if path and status and path.name.endswith(".py") and not pattern:
        argv.append(operand(path))
        seeks = f"unittest looks in {path.shown} for TestCase classes"
    else:
        start = operand(path) if path else "tests" if project.has_folder("tests") else "."
        files = pattern or "test*.py"
        argv += ["discover", f"-s{start}", f"-p{files}", *(["-t."] if start == "." else [])]
        seeks = f"unittest looks in {start} and packages below it for {files} with TestCase classes"
    return Suite(
        argv,
        summary=partial(SummaryLines, r"Ran \d|OK|FAILED", counting.unittest),
        nothing=(5,),
        failures="={70}$",
        seeks=f"{seeks}; framework=pytest finds functions too",
    )


def _go_packages(path: Place | None) -> str:
    if path is None:
        return "./..."
    status = path.stat()
    folder = path.folder() if status and stat.S_ISREG(status.st_mode) else path
    below = folder.shown.removesuffix("...").rstrip("/")
    return f"./{below}/..." if below not in (".", "") else "./..."


def _cargo_target(path: Place | None) -> list[str]:
    if path is None:
        return []
    if path.name.endswith(".rs") and len(path.parts) > 1 and path.parts[-2] == "tests":
        return [f"--test={path.name.removesuffix('.rs')}"]
    folder = path
    while folder.parts and folder.child("Cargo.toml").stat() is None:
        folder = folder.folder()
    return [f"--manifest-path={folder.child('Cargo.toml').shown}"]


def _has_test_script(text: str) -> bool:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    scripts = found.get("scripts") if isinstance(found, dict) else None
    return isinstance(scripts, dict) and isinstance(scripts.get("test"), str)


def _from_first(pattern: str, done: Finished) -> Finished | None:
    """Return a run without what its streams say before the first failure; None where nothing is to be left out."""
    if done.exit_code == 0 or not pattern:
        return None
    streams = {}
    for name, stream in (("stdout", done.stdout), ("stderr", done.stderr)):
        found = re.search(rf"^(?:{pattern})", stream.text, re.MULTILINE)
        if found and found.start():
            before = len(stream.text[: found.start()].encode("utf-8", "replace"))
            streams[name] = replace(stream, text=f"... [{before} bytes dropped] ...\n{stream.text[found.start() :]}")
    if not streams:
        return None
    return replace(done, stdout=streams.get("stdout", done.stdout), stderr=streams.get("stderr", done.stderr))
