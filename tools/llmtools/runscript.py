"""runscript, of the llmtools profile."""

from typing import Annotated

from pydantic import Field

from ...safety.commands import ScriptArguments, Variables
from ...safety.paths import ProjectPath
from ...sandbox.service import QUALIFYING
from ..base import Access, tool
from ..command.run_script import ScriptResult, run_script
from ..results import Verbatim
from ..services import Settings, Shells
from ._streams import stream


@tool(
    Access.EXEC,
    deadline=lambda settings, given: settings.shell_timeout + 5 + (QUALIFYING if settings.shell_sandbox else 0),
)
async def runscript(
    shells: Shells,
    settings: Settings,
    path: ProjectPath,
    args: Annotated[ScriptArguments, Field(description="each arrives literally")] = (),
    env: Variables | None = None,
    workDir: ProjectPath = ".",  # type: ignore[assignment]
) -> Verbatim:
    """Run a script file of the project with the interpreter of its extension."""
    done = await run_script.run(
        shells=shells, settings=settings, path=path, args=args, env=env, work_dir=workDir, timeout=None, stdin=None
    )
    assert isinstance(done, ScriptResult)
    return Verbatim(
        {
            "path": str(path.path),
            "exitCode": done.exit_code,
            **stream("stdout", done.stdout, done.stdout_truncated),
            **stream("stderr", done.stderr, done.stderr_truncated),
            "timedOut": done.timed_out,
            "durationMS": round(done.duration_ms),
        }
    )
