"""bash."""

from typing import Annotated

from pydantic import Field

from ...safety.commands import Arguments, Command, Input, Variables
from ...safety.paths import ProjectPath
from ...sandbox.process.capture import Capture
from ...sandbox.service import QUALIFYING
from ..base import Access, tool
from ..exec_result import ExecResult
from ..services import Programs, Sandbox, Settings
from ._timeout import Timeout, longer, seconds


@tool(
    Access.EXEC,
    unsafe=True,
    deadline=lambda settings, given: (
        (given["timeout"] or settings.command_timeout) + 5 + (QUALIFYING if given["sandboxed"] else 0)
    ),
)
async def bash(
    programs: Programs,
    sandbox: Sandbox,
    settings: Settings,
    command: Annotated[Command, Field(description="name of an allowed executable")],
    args: Annotated[Arguments, Field(description="each arrives literally")] = [],  # noqa: B006 - never changed
    work_dir: Annotated[ProjectPath | None, Field(description="folder to run in")] = None,
    env: Annotated[Variables | None, Field(description="variables to add")] = None,
    timeout: Timeout = None,
    stdin: Annotated[Input | None, Field(description="what it reads")] = None,
    sandboxed: Annotated[bool, Field(description="confine to the project")] = False,
) -> ExecResult:
    """Run one allowed program with arguments in the project folder and wait for it.

    No shell: no pipes, redirections or globs. For a server, a watcher or what takes longer than timeout use process_start.
    """
    limit = seconds(timeout, settings.command_timeout, settings)
    if sandboxed:
        folder = str(work_dir.target().path) if work_dir else programs.cwd
        done = await sandbox.run_on(
            programs.cwd,
            [command, *args],
            cwd=folder,
            env={**programs.in_sandbox(folder), **(env or {})},
            timeout=limit,
            stdin=stdin or b"",
            capture=Capture(),
        )
        return ExecResult.of(done.finished, reasons=done.reasons, late=longer(settings))
    finished = await programs.run([command, *args], work_dir=work_dir, env=env, timeout=limit, stdin=stdin or b"")
    return ExecResult.of(finished, late=longer(settings))
