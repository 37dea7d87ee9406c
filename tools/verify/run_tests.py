"""run_tests."""

from ...safety.paths import ProjectPath
from ..base import Access, tool
from ..blocking import Stop, reading
from ..results import Text
from ..services import Progress, Settings, Toolchains
from ._frameworks import Framework, Suite, detect, exists, run_suite, suite_of
from ._run import Project


@tool(Access.EXEC, deadline=lambda settings, given: settings.toolchain_timeout + 5)
async def run_tests(
    toolchains: Toolchains,
    settings: Settings,
    progress: Progress,
    path: ProjectPath | None = None,
    framework: Framework | None = None,
) -> Text:
    """Run the project's test suite, found by its files, and say how many tests passed and failed."""
    project = Project(toolchains.cwd)

    def chosen(stop: Stop) -> Suite:
        if path and not framework:
            exists(path)
        return suite_of(framework or detect(project), project, path)

    return await run_suite(await reading(chosen), toolchains, settings, progress)
