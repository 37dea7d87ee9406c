"""run_script."""

import os
import shlex
from typing import Annotated

from pydantic import Field

from ...safety.commands import ScriptArguments, Variables
from ...safety.errors import Code, ToolError, not_installed
from ...safety.paths import ProjectPath
from ...sandbox.service import QUALIFYING
from ..base import Access, tool
from ..exec_result import ExecResult
from ..services import Settings, Shells


class ScriptResult(ExecResult):
    """How a script ended. interpreter: the program that ran it."""

    path: str
    interpreter: str


@tool(
    Access.EXEC,
    deadline=lambda settings, given: settings.shell_timeout + 5 + (QUALIFYING if settings.shell_sandbox else 0),
)
async def run_script(
    shells: Shells,
    settings: Settings,
    path: ProjectPath,
    args: Annotated[ScriptArguments, Field(description="each arrives literally")] = (),
    env: Variables | None = None,
    work_dir: ProjectPath = ".",  # type: ignore[assignment]
) -> ScriptResult:
    """Run a script file of the project with the interpreter of its extension, such as .sh or .py."""
    extension = os.path.splitext(path.name)[1].lower()
    interpreter = settings.script_interpreters.get(extension)
    if interpreter is None:
        known = " ".join(sorted(settings.script_interpreters)) or "(none)"
        raise ToolError(
            Code.SCRIPT_DENIED,
            f"{extension or path.shown} has no interpreter; there are some for {known}",
            "script_interpreters in the configuration names them",
        )
    script = path.target()
    os.close(script.open_file())
    variables = await shells.environment(env or {})
    argv = shlex.split(interpreter)
    if not (found := shells.which(argv[0], variables)):
        raise not_installed(argv[0])
    ran = await shells.run_argv(
        [found, *argv[1:], str(script.path), *args], cwd=work_dir, env=variables, timeout=settings.shell_timeout
    )
    return ScriptResult.of(ran.finished, reasons=ran.reasons, path=path.shown, interpreter=argv[0])
