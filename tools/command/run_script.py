"""run_script."""

import os
import shlex
from typing import Annotated

from pydantic import Field

from ...safety.commands import Input, ScriptArguments, Variables
from ...safety.errors import Code, ToolError, not_installed
from ...safety.paths import ProjectPath
from ...sandbox.service import QUALIFYING
from ..base import Access, tool
from ..exec_result import ExecResult
from ..services import Settings, Shells
from ._timeout import Timeout, longer, seconds


class ScriptResult(ExecResult):
    """How a script ended. interpreter: the program that ran it."""

    path: str
    interpreter: str


@tool(
    Access.EXEC,
    deadline=lambda settings, given: (
        (given["timeout"] or settings.shell_timeout) + 5 + (QUALIFYING if settings.shell_sandbox else 0)
    ),
)
async def run_script(
    shells: Shells,
    settings: Settings,
    path: ProjectPath,
    args: Annotated[ScriptArguments, Field(description="each arrives literally")] = (),
    env: Variables | None = None,
    work_dir: ProjectPath = ".",  # type: ignore[assignment]
    timeout: Timeout = None,
    stdin: Annotated[Input | None, Field(description="what it reads")] = None,
) -> ScriptResult:
    """Run a script file of the project with the interpreter of its extension, such as .sh or .py."""
    limit = seconds(timeout, settings.shell_timeout, settings)
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
    argv = shlex.split(interpreter)
    shells = await shells.settled()
    variables = await shells.environment(env or {})
    # Found where the server's start says: a variable of the call must not decide what runs the file.
    found = shells.which(argv[0], await shells.environment())
    if not found:
        raise not_installed(argv[0])
    ran = await shells.run_argv(
        [found, *argv[1:], str(script.path), *args], cwd=work_dir, env=variables, timeout=limit, stdin=stdin or b""
    )
    return ScriptResult.of(
        ran.finished, reasons=ran.reasons, late=longer(settings), path=path.shown, interpreter=argv[0]
    )
