"""Test suites: which one a project has, how it is run, and how many tests it says passed."""

import json
import os
import re
import stat
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...sandbox.process.runner import Finished
from ...sandbox.programs import Toolchains
from ..blocking import run_read
from ..results import Text
from ..settings import ToolSettings
from . import _counts as counting
from ._counts import DID_NOT_RUN, NONE_RAN, Counts, headline
from ._output import GoEvents, Summary, SummaryLines
from ._run import Project, insist, nearest, operand, projects_below, report, without_frames, written

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

    folder: where it runs, None for the base. extra: arguments behind argv that are of no interest to a reader; REPORT stands for
    the file of a report. noise: lines that say nothing about a failure, such as dots and tests that passed.
    reported: reads the counts off that file. summary: reads them off the output while it comes. nothing: exit statuses
    that say that there were no tests. failures: what the first line about a failure looks like. seeks: where the runner looks for
    which tests, told when there were none.
    """

    argv: list[str]
    folder: JailedPath | None = None
    extra: tuple[str, ...] = ()
    reported: Callable[[bytes], Counts | None] | None = None
    summary: Callable[[], Summary] | None = None
    nothing: tuple[int, ...] = ()
    failures: str = ""
    noise: str = ""
    seeks: str = ""


async def run_suite(suite: Suite, toolchains: Toolchains, settings: ToolSettings) -> Text:
    """Run a suite and report on it: failures first, without dots and tests that passed."""
    with tempfile.TemporaryDirectory(prefix="toolbox-report-") as folder:
        file = os.path.join(folder, "report")
        argv = [*suite.argv, *(part.replace("REPORT", file) for part in suite.extra)]
        summary = suite.summary() if suite.summary else None
        done = await toolchains.run(
            argv,
            timeout=settings.toolchain_timeout,
            work_dir=suite.folder,
            seen=summary.feed if summary else None,
        )
        counts = summary.counts() if summary else None
        if reported := suite.reported:
            counts = await run_read(lambda stop: reported(written(file)))
    first = headline(done, counts, settings.toolchain_timeout, nothing_ran=done.exit_code in suite.nothing)
    if isinstance(summary, GoEvents):
        printed, failed = summary.printed()
        told = failed if done.exit_code and failed.strip() else printed.text
        return report(first, suite.argv, replace(done, stdout=replace(printed, text=told)), folder=suite.folder)
    note = suite.seeks if first == NONE_RAN else ""
    if first.startswith(DID_NOT_RUN):
        # The first line names the reason, and the frames below it are of the runner alone.
        printed = replace(done.stdout, text=without_frames(done.stdout.text))
        done = replace(done, stdout=printed, stderr=replace(done.stderr, text=without_frames(done.stderr.text)))
    return report(first, suite.argv, _without_noise(suite, done), note, folder=suite.folder)


_PYTHON_TESTS = re.compile(r"test.*\.py|.*_test\.py")
_FOR_PYTEST = re.compile(r"^(?:(?:async )?def test|(?:import|from) pytest\b)", re.MULTILINE)
"""What only pytest runs: functions outside of a class."""

SEEN_TESTS = 20
"""Files of tests that are looked at to tell pytest from unittest; a guess."""


def detect(project: Project) -> Framework | None:
    """Return the framework that a project uses; None where nothing tells."""
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
    if "test" in _scripts(project.text("package.json")):
        return "npm"
    files = [name for name in project.names() if _PYTHON_TESTS.fullmatch(name)]
    if project.has_folder("tests"):
        files += [f"tests/{name}" for name in project.below("tests").names() if _PYTHON_TESTS.fullmatch(name)]
    elif not files:
        return None
    return "pytest" if any(_FOR_PYTEST.search(project.text(name)) for name in files[:SEEN_TESTS]) else "unittest"


def chosen(
    path: JailedPath | None,
    framework: Framework | None,
    filter: str | None,
    base: str,
    ignored: Collection[str],
    files: str | None = None,
) -> Suite:
    """Return the command of the nearest project at or above a path that runs the tests there; of the base without one.

    filter: part of the names of tests. files: for unittest, a pattern of file names.

    ToolError: no_tests where nothing tells, with the projects below the base; not_found for a path that names nothing.
    """
    if path:
        exists(path, framework)

    def fits(project: Project) -> bool:
        return project.is_marked() and detect(project) is not None

    folder = nearest(path, lambda project: fits(project) and framework in (None, detect(project))) or nearest(
        path, fits
    )
    project = Project(folder.absolute if folder else base)
    wanted = framework or detect(project)
    if wanted is None:
        below = projects_below(base, fits, ignored)
        raise ToolError(
            Code.NO_TESTS,
            "nothing here says how its tests are run",
            f"path={' or path='.join(below)} runs the tests there"
            if below
            else f"framework: {', '.join(get_args(Framework))}",
        )
    return suite_of(wanted, project, path, filter, folder if folder and folder.parts else None, files)


def exists(path: JailedPath, framework: Framework | None = None) -> None:
    """ToolError not_found where the path for a framework, or for one that is not known yet, names nothing."""
    if "*" in path.shown and framework in (None, "minitest", "npm"):
        return  # These two take a glob as well.
    insist(path, SELECTORS.get(framework, "(?!)") if framework else "|".join(SELECTORS.values()))


def suite_of(
    framework: Framework,
    project: Project,
    path: JailedPath | None,
    filter: str | None = None,
    folder: JailedPath | None = None,
    files: str | None = None,
) -> Suite:
    """Return the command by which a framework runs the tests of a project below path that match filter.

    folder: where the project is, None for the base. ToolError: not_found for a missing path, invalid_args where a
    framework has no choice by name.
    """
    if path:
        exists(path, framework)
    if path and folder and path.absolute == folder.absolute:
        path = None
    where = [operand(path, folder)] if path else []
    match framework:
        case "rspec":
            named = [f"--example={filter}"] if filter else []
            argv = ["rspec", "--no-color", "--format", "progress", *named, *where]
            return Suite(
                project.bundled(argv),
                folder,
                ("--format=json", "--out=REPORT"),
                reported=counting.rspec,
                failures=r"Failures:$|An error occurred ",
                noise=r"[.F*]+$",
            )
        case "minitest":
            named = [f"TESTOPTS=--name=/{re.escape(filter)}/"] if filter else []
            return Suite(
                project.bundled(["rake", "test", *(f"TEST={each}" for each in where), *named]),
                folder,
                summary=partial(SummaryLines, r"\d+ (?:runs|tests), ", counting.minitest),
                failures=r" *(?:\d+\) )?(?:Failure|Error):",
                noise=r"[.FES]+$|# Running|Run options: ",
            )
        case "pytest":
            named = [f"-k{filter}"] if filter else []
            return Suite(
                ["pytest", "-q", "--color=no", *named, *where],
                folder,
                ("--tb=short", "--no-header", "--junitxml=REPORT"),
                reported=counting.pytest,
                nothing=(5,),
                failures=r"=+ (?:FAILURES|ERRORS) =+$",
                noise=r"[.FEsxX]+(?: +\[ *\d+%\])?$|-+ generated xml file: ",
            )
        case "unittest":
            return _unittest(project, path, filter, folder, files)
        case "npm":
            return _npm(project, where, filter, folder)
        case "cargo":
            return Suite(
                ["cargo", "test", "--color=never", *_cargo_target(path, folder), *([filter] if filter else [])],
                folder,
                summary=partial(SummaryLines, "test result: ", counting.cargo),
                failures=r"failures:$|error(?:\[E\d+\])?: ",
                noise=r"test .* \.\.\. (?:ok|ignored)$| +(?:Compiling|Finished|Running|Downloaded|Doc-tests) |running \d+ tests?$",
            )
        case "go":
            named = [f"-run={re.escape(filter)}"] if filter else []
            return Suite(["go", "test", "-json", *named, _go_packages(path, folder)], folder, summary=GoEvents)


_BY_NAME: Mapping[str, str] = {
    "vitest": "-t",
    "jest": "-t",
    "mocha": "--grep",
    "ava": "--match",
    "--test": "--test-name-pattern",
}
"""The option of each runner behind npm that chooses tests by name."""


_CHAIN = re.compile(r"[;&|]")


def _npm(project: Project, where: list[str], filter: str | None, folder: JailedPath | None) -> Suite:
    scripts = _scripts(project.text("package.json"))
    name, script = _runner(scripts) if where or filter else ("test", scripts.get("test", ""))
    handed = list(where)
    if filter:
        option = next((option for name, option in _BY_NAME.items() if name in re.split(r"[\s/]+", script)), None)
        if option is None:
            raise ToolError(
                Code.INVALID_ARGS,
                f"filter: how to choose tests by name is not known for `npm test`, which runs {script[:100] or 'nothing'}",
                "leave filter out, or name a file with path",
            )
        handed = [option, filter, *where]
    note = f"npm hands the arguments to the last command of: {script}" if handed and _CHAIN.search(script) else ""
    return Suite(
        ["npm", *(["test"] if name == "test" else ["run", name]), *(["--", *handed] if handed else [])],
        folder,
        summary=partial(SummaryLines, r"(?:#|ℹ) \w+ \d|Tests:?[ \x1b]|\d+ (?:passing|failing|pending)\b", counting.npm),
        failures=r"✖ failing tests:|not ok \d| +● | +\d+ failing$| *FAIL ",
        noise=r"ok \d|✔ |PASS |> | +✓ | *✔ ",
        seeks=note,
    )


def _unittest(
    project: Project, path: JailedPath | None, filter: str | None, folder: JailedPath | None, files: str | None
) -> Suite:
    argv = ["python3", "-m", "unittest"]
    status = path.stat() if path else None
    named = [f"-k{filter}"] if filter else []
    if path and status and path.name.endswith(".py") and not files:
        argv += [*named, operand(path, folder)]
        seeks = f"unittest looks in {path.shown} for TestCase classes"
    else:
        start = operand(path, folder) if path else "tests" if project.has_folder("tests") else "."
        argv += ["discover", *named, f"-s{start}", f"-p{files or 'test*.py'}", *(["-t."] if start == "." else [])]
        seeks = f"unittest looks in {start} and packages below it for {files or 'test*.py'} with TestCase classes"
    return Suite(
        argv,
        folder,
        summary=partial(SummaryLines, r"Ran \d|OK|FAILED", counting.unittest),
        nothing=(5,),
        failures="={70}$",
        noise=r"[.FEsxu]+$|\w+(?: \(.*\))? \.\.\. ok$",
        seeks=f"{seeks}; framework=pytest finds functions too",
    )


def _go_packages(path: JailedPath | None, folder: JailedPath | None) -> str:
    if path is None:
        return "./..."
    status = path.stat()
    package = path.folder() if status and stat.S_ISREG(status.st_mode) else path
    below = os.path.relpath(package.absolute, folder.absolute) if folder else package.shown
    below = below.removesuffix("...").rstrip("/")
    return f"./{below}/..." if below not in (".", "") else "./..."


def _cargo_target(path: JailedPath | None, root: JailedPath | None) -> list[str]:
    if path is None:
        return []
    if path.name.endswith(".rs") and len(path.parts) > 1 and path.parts[-2] == "tests":
        return [f"--test={path.name.removesuffix('.rs')}"]
    folder = path
    while folder.parts and folder.child("Cargo.toml").stat() is None:
        folder = folder.folder()
    if root and folder.absolute == root.absolute:
        return []
    return [f"--manifest-path={operand(folder.child('Cargo.toml'), root)}"]


def _scripts(text: str) -> dict[str, str]:
    """Return the scripts of a package.json."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    scripts = found.get("scripts") if isinstance(found, dict) else None
    scripts = scripts if isinstance(scripts, dict) else {}
    return {name: script for name, script in scripts.items() if isinstance(script, str)}


def _runner(scripts: Mapping[str, str]) -> tuple[str, str]:
    """Return the script that arguments of tests are for: `test`, or the first it runs that is a known runner."""
    test = scripts.get("test", "")
    for name in re.findall(r"\b(?:npm run|pnpm(?: run)?|yarn(?: run)?) ([\w:.-]+)", test):
        script = scripts.get(name, "")
        if not _CHAIN.search(script) and not _BY_NAME.keys().isdisjoint(re.split(r"[\s/]+", script)):
            return name, script
    return "test", test


def _without_noise(suite: Suite, done: Finished) -> Finished:
    """Return a run without lines of noise, and without what comes before the first failure."""
    if done.timed_out:
        return done
    streams = {}
    for name, stream in (("stdout", done.stdout), ("stderr", done.stderr)):
        text = stream.text
        found = re.search(rf"^(?:{suite.failures})", text, re.MULTILINE) if done.exit_code and suite.failures else None
        if found:
            text = text[found.start() :]
        if suite.noise:
            noise = re.compile(suite.noise)
            text = "".join(line for line in text.splitlines(keepends=True) if not noise.match(line))
        streams[name] = replace(stream, text=re.sub(r"\n{3,}", "\n\n", text).lstrip("\n"))
    return replace(done, stdout=streams["stdout"], stderr=streams["stderr"])
