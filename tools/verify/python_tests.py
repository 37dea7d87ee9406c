"""python_tests."""

from typing import Annotated, Literal

from pydantic import Field

from ...safety.paths import ProjectPath
from ..base import Access, tool
from ..blocking import run_read
from ..results import Text
from ..services import Settings, Toolchains
from ._frameworks import chosen, run_suite


@tool(Access.EXEC, deadline=lambda settings, given: settings.toolchain_timeout + 5)
async def python_tests(
    toolchains: Toolchains,
    settings: Settings,
    path: Annotated[ProjectPath | None, Field(description="file, folder or sub-project")] = None,
    framework: Literal["pytest", "unittest"] = "pytest",
    pattern: Annotated[str | None, Field(description="pytest -k, or unittest's file pattern")] = None,
) -> Text:
    """Run Python tests, all or those that match; failures come first."""
    by_name, files = (pattern, None) if framework == "pytest" else (None, pattern)
    suite = await run_read(lambda stop: chosen(path, framework, by_name, toolchains.cwd, settings.ignored_dirs, files))
    return await run_suite(suite, toolchains, settings)
