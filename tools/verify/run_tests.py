"""run_tests."""

from typing import Annotated

from pydantic import Field

from ...safety.paths import ProjectPath
from ..base import Access, tool
from ..blocking import run_read
from ..results import Text
from ..services import Settings, Toolchains
from ._frameworks import Framework, chosen, run_suite


@tool(Access.EXEC, deadline=lambda settings, given: settings.toolchain_timeout + 5)
async def run_tests(
    toolchains: Toolchains,
    settings: Settings,
    path: Annotated[ProjectPath | None, Field(description="file, folder or sub-project")] = None,
    framework: Framework | None = None,
    filter: Annotated[str | None, Field(description="only tests with this name")] = None,
) -> Text:
    """Run the tests of the project, or of the sub-project that path lies in; failures come first."""
    suite = await run_read(lambda stop: chosen(path, framework, filter, toolchains.cwd, settings.ignored_dirs))
    return await run_suite(suite, toolchains, settings)
