"""python_tests."""

from typing import Annotated, Literal

from pydantic import Field

from toolbox_mcp.safety.paths import ProjectPath
from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.results import Text
from toolbox_mcp.tools.services import Progress, Settings, Toolchains
from toolbox_mcp.tools.threads import reading
from toolbox_mcp.tools.verify.running import Project
from toolbox_mcp.tools.verify.suites import run_suite, suite_of


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
