"""shellcommand, of the llmtools profile."""

from typing import Annotated, Any

from pydantic import Field

from ...safety.commands import Variables
from ...safety.paths import ProjectPath
from ...safety.shell.file_commands import Lines
from ..base import Access, tool
from ..command.shell import ShellName, ShellResult
from ..command.shell import shell as shell_tool
from ..results import Verbatim
from ..services import Journal, Programs, Progress, Sandbox, Seen, Settings, Shells, ShellSessions
from ._streams import stream

Commands = Annotated[Lines, Field(description="run one after another, each in a new shell")]


@tool(Access.EXEC, deadline=lambda settings, given: settings.max_tool_timeout + 5)
async def shellcommand(
    shells: Shells,
    sessions: ShellSessions,
    sandbox: Sandbox,
    programs: Programs,
    settings: Settings,
    progress: Progress,
    seen: Seen,
    journal: Journal,
    commands: Commands,
    workDir: ProjectPath | None = None,
    env: Variables | None = None,
    shell: ShellName = "auto",
    executeParallel: Annotated[bool, Field(description="go on after a failure")] = False,
    sessionID: Annotated[str | None, Field(description="keeps workDir and env")] = None,
) -> Verbatim:
    """Run shell commands, in a session that keeps the working folder and variables that it was given."""
    ran = await shell_tool.run(
        shells=shells,
        sessions=sessions,
        sandbox=sandbox,
        programs=programs,
        settings=settings,
        progress=progress,
        seen=seen,
        journal=journal,
        commands=commands,
        work_dir=workDir,
        env=env,
        shell=shell,
        continue_on_error=executeParallel,
        session=sessionID,
    )
    assert isinstance(ran, ShellResult)
    share = len(ran.results) or 1
    results: list[dict[str, Any]] = [
        {
            "command": step.command,
            "workDir": step.work_dir,
            "shell": ran.shell,
            "shellPath": step.shell_path,
            "exitCode": step.exit_code,
            "timedOut": step.timed_out,
            "durationMS": round(step.duration_ms),
            **stream("stdout", step.stdout, step.stdout_truncated, share),
            **stream("stderr", step.stderr, step.stderr_truncated, share),
        }
        for step in ran.results
    ]
    return Verbatim(
        {"sessionID": ran.session, "workDir": results[-1]["workDir"] if results else ".", "results": results}
    )
