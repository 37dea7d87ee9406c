"""bash."""

from typing import Annotated

from pydantic import Field

from ...safety.commands import Arguments, Command
from ...sandbox.process.capture import Capture
from ...sandbox.service import QUALIFYING
from ..base import Access, tool
from ..exec_result import ExecResult
from ..services import Programs, Sandbox, Settings


@tool(
    Access.EXEC,
    unsafe=True,
    deadline=lambda settings, given: settings.command_timeout + 5 + (QUALIFYING if given["sandboxed"] else 0),
)
async def bash(
    programs: Programs,
    sandbox: Sandbox,
    settings: Settings,
    command: Annotated[Command, Field(description="name of an allowed executable")],
    args: Annotated[Arguments, Field(description="each arrives literally")] = [],  # noqa: B006 - never changed
    sandboxed: Annotated[bool, Field(description="confine to the project")] = False,
) -> ExecResult:
    """Run one allowed program with arguments in the project folder and wait for it.

    No shell: no pipes, redirections or globs. For a server or watcher use process_start.
    """
    if sandboxed:
        done = await sandbox.run_on(
            programs.cwd,
            [command, *args],
            cwd=programs.cwd,
            env={},
            timeout=settings.command_timeout,
            capture=Capture(),
        )
        return ExecResult.of(done.finished, reasons=done.reasons)
    return ExecResult.of(await programs.run([command, *args], timeout=settings.command_timeout))
