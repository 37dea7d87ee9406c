"""process_start."""

import shlex
from typing import Annotated

from pydantic import Field

from ...safety.commands import Arguments, Command
from ...safety.text import visible_name
from ..base import Access, tool
from ..results import Record
from ..services import Processes


class ProcessStarted(Record):
    """A background process that has just been started."""

    id: str
    pid: int
    name: str | None
    command: str

    def rendered(self) -> str:
        """Return one line."""
        return f"Started {self.id} (pid {self.pid}): {visible_name(self.command)}"


@tool(Access.EXEC, unsafe=True)
async def process_start(
    processes: Processes,
    command: Annotated[Command, Field(description="name of an allowed executable")],
    args: Annotated[Arguments, Field(description="each arrives literally")] = (),
    name: Annotated[str | None, Field(max_length=64, description="label for the list")] = None,
    stdin: Annotated[bool, Field(description="keep stdin open for process_input")] = False,
    pty: Annotated[bool, Field(description="run on a terminal; one merged stream")] = False,
) -> ProcessStarted:
    """Start an allowed program in the background: a server, a watcher, a REPL.

    Read it with process_output, end it with process_kill. For a program that ends by itself use bash.
    """
    argv = [command, *args]
    started = await processes.start(argv, name=name, stdin=stdin, pty=pty)
    return ProcessStarted(id=started.id, pid=started.pid, name=name, command=shlex.join(argv))
