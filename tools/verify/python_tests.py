"""python_tests."""

from typing import Annotated, Literal

from pydantic import Field

from ...safety.paths import ProjectPath
from ..base import Access, tool
from ..blocking import reading
from ..results import Text
from ..services import Progress, Settings, Toolchains
from ._frameworks import run_suite, suite_of
from ._run import Project


@tool(Access.EXEC, deadline=lambda settings, given: settings.toolchain_timeout + 5)
async def python_tests(
    toolchains: Toolchains,
    settings: Settings,
    progress: Progress,
    path: ProjectPath | None = None,
    framework: Literal["pytest", "unittest"] = "pytest",
    pattern: Annotated[str | None, Field(description="pytest -k, or unittest's file pattern")] = None,
) -> Text:
    """Run Python tests, all or those that match, and say how many passed and failed."""
    suite = await reading(lambda stop: suite_of(framework, Project(toolchains.cwd), path, pattern))
    return await run_suite(suite, toolchains, settings, progress)
