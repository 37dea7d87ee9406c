"""process_start."""

import shlex
from typing import Annotated

from pydantic import Field

from ...safety.commands import Arguments, Command, Variables
from ...safety.paths import ProjectPath
from ...safety.text import visible_name
from ...sandbox.processes import WAIT_FOR_SECONDS
from ..base import Access, tool
from ..services import Processes
from ._output import ProcessOutput


class ProcessStarted(ProcessOutput):
    """A background process that has just been started, with what it wrote while the call waited."""

    pid: int
    name: str | None
    command: str

    def first_line(self) -> str:
        """Return one line: what was started, and where it has ended already, how."""
        started = f"Started {self.id} (pid {self.pid}): {visible_name(self.command)}"
        quiet = self.status == "running" and self.matched is None
        return started if quiet else f"{started}\n{super().first_line()}"

    def rendered(self) -> str:
        """Return the first line, whether the pattern matched, and the output."""
        return super().rendered() if self.matched is not None or self.stdout or self.stderr else self.first_line()


@tool(
    Access.EXEC,
    unsafe=True,
    deadline=lambda settings, given: _wait(given["wait"], given["wait_for"]) + 5 + settings.regex_timeout,
)
async def process_start(
    processes: Processes,
    command: Annotated[Command, Field(description="name of an allowed executable")],
    args: Annotated[Arguments, Field(description="each arrives literally")] = (),
    work_dir: Annotated[ProjectPath | None, Field(description="folder to run in")] = None,
    env: Annotated[Variables | None, Field(description="variables to add")] = None,
    name: Annotated[str | None, Field(max_length=64, description="label, accepted as id")] = None,
    stdin: Annotated[bool, Field(description="keep stdin open for process_input")] = False,
    pty: Annotated[bool, Field(description="run on a terminal; one merged stream")] = False,
    wait_for: Annotated[str | None, Field(description="regex to wait for in the output")] = None,
    wait: Annotated[float, Field(ge=0, le=60, description="seconds to wait; with wait_for 30")] = 0,
) -> ProcessStarted:
    """Start an allowed program in the background: a server, a watcher, a REPL, a long build.

    With wait_for the answer has the first output. Read on with process_output, end it with process_kill.
    """
    argv = [command, *args]
    if wait_for is not None:
        await processes.check_pattern(wait_for)
    started = await processes.start(argv, name=name, stdin=stdin, pty=pty, work_dir=work_dir, env=env)
    output = await processes.output(started.id, _wait(wait, wait_for), wait_for)
    return ProcessStarted.of(started.id, output, pid=started.pid, name=name, command=shlex.join(argv))


def _wait(wait: float, wait_for: str | None) -> float:
    return wait or (WAIT_FOR_SECONDS if wait_for is not None else 0.0)
