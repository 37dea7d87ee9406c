"""shell."""

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr

from ...safety.commands import Variables
from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import ProjectPath
from ...safety.shell.file_commands import FileCommand, Line, Lines, ShellLine
from ...safety.shell.rules import check
from ...safety.variables import check_variables
from ...sandbox.shell import POWERSHELLS, Ran
from ..base import Access, tool
from ..exec_result import ExecResult
from ..results import Budget, Record, at_most
from ..services import Journal, Programs, Progress, Sandbox, Seen, Settings, Shells, ShellSessions
from ..settings import ToolSettings
from ._file_commands import FileCommands, joined
from ._timeout import longer, seconds

ShellName = Literal["auto", "bash", "zsh", "sh", "dash", "ksh", "fish", "pwsh", "powershell", "cmd"]


class ShellStep(ExecResult):
    """One command and how it ended."""

    command: str
    work_dir: str
    shell_path: str


class ShellResult(Record):
    """What the commands of a call did. stopped_at: index of the one that failed and stopped the rest."""

    session: str
    shell: str
    platform: str
    results: list[ShellStep]
    stopped_at: int | None
    _begun: bool = PrivateAttr(default=False)
    _only: bool = PrivateAttr(default=False)

    def told(self, *, begun: bool, only: bool) -> Self:
        """Note what the text depends on.

        begun: the session is one that the caller may want to go on with and has not been told of. only: there was one
        `command`, which the caller need not be reminded of.
        """
        self._begun, self._only = begun, only
        return self

    @property
    def size(self) -> int:
        """Return an upper bound of the bytes of all streams, with room for the forms around them."""
        return sum(step.size + at_most(step.command) for step in self.results) + len(self.session) + 20

    def rendered(self) -> str:
        """Return the exec form, of several commands each behind its command, and the name of a session that was begun."""
        blocks = [step.rendered() if self._only else f"$ {step.command}\n{step.rendered()}" for step in self.results]
        return "\n".join([*blocks, f"session: {self.session}"] if self._begun else blocks)

    def within(self, budget: Budget) -> tuple[Self, dict[str, Any]]:
        """Return the result with the streams cut to the budget, which several commands share evenly."""
        share = budget.part(len(self.results))
        steps, meta = [], {"tokens": 0, "cut": 0}
        for step in self.results:
            fitted, cut = step.within(share)
            steps.append(fitted)
            for key, count in cut.get("truncated", {}).items():
                meta[key] += count
        return self.model_copy(update={"results": steps}), {"truncated": meta} if meta["cut"] else {}


@tool(Access.EXEC, deadline=lambda settings, given: settings.max_tool_timeout + 5)
async def shell(
    shells: Shells,
    sessions: ShellSessions,
    sandbox: Sandbox,
    programs: Programs,
    settings: Settings,
    progress: Progress,
    seen: Seen,
    journal: Journal,
    command: Line | None = None,
    commands: Lines | None = None,
    work_dir: ProjectPath | None = None,
    env: Variables | None = None,
    timeout: Annotated[int | None, Field(ge=1, description="seconds for each command")] = None,
    shell: ShellName = "auto",
    continue_on_error: bool = False,
    session: Annotated[str | None, Field(description="from an earlier result; keeps work_dir and env")] = None,
    sandboxed: Annotated[bool, Field(description="confine to the project; the operator may always do so")] = False,
) -> ShellResult:
    """Run shell command lines, one after another, each in a new shell.

    A session keeps only work_dir and env, no cd or export. Outside of a sandbox, commands that fetch from
    other hosts, edit interactively or gain rights are refused, and so is deleting but by a plain `rm` of project paths, which undo
    brings back.
    """
    wanted = _wanted(command, commands, settings)
    limit = seconds(timeout, settings.shell_timeout, settings)
    kept = sessions.open(session)
    shells = shells.confined(sandbox) if sandboxed else await shells.settled()
    program = shells.find(shell)
    folder = work_dir or kept.work_dir
    by_shell = shells.is_confined or program.name in POWERSHELLS
    parts = (
        [((), line.text) for line in wanted] if by_shell else await asyncio.to_thread(_split, wanted, folder, settings)
    )
    judged = [rest for own, rest in parts if rest or not own]
    await asyncio.to_thread(_check, judged, program.name, settings, shells.is_confined)
    files = FileCommands(settings, seen, journal)
    shown = folder.shown if folder else "."
    given = {**kept.env, **(env or {})}
    # Each call brings as much as it may, and a session adds it up.
    check_variables(given)
    at = str(folder.target().path) if folder else None
    lent: AbstractContextManager[Mapping[str, str]]
    if shells.is_confined:
        lent = nullcontext(await shells.environment(programs.in_sandbox(at), given))
    else:
        lent = programs.for_shell(at, await shells.environment(given))
    deadline = time.monotonic() + settings.max_tool_timeout
    steps: list[ShellStep] = []
    stopped_at: int | None = None
    stack = ExitStack()
    try:
        variables = await asyncio.to_thread(stack.enter_context, lent)
        for index, (line, (own, rest)) in enumerate(zip([line.text for line in wanted], parts, strict=True)):
            left = deadline - time.monotonic()
            if left <= 0:
                stopped_at = index
                break
            await progress(index, len(wanted), line[:100])
            first = await files.run(own) if own else None
            if first and not rest:
                ran = Ran(first)
            else:
                if own and own[-1].ends == "&&":
                    rest = f"{'false' if first and first.exit_code else 'true'} && {rest}"
                ran = await shells.run(program, rest, cwd=folder, env=variables, timeout=min(limit, left))
                ran = Ran(joined(first, ran.finished), ran.reasons) if first else ran
            step = ShellStep.of(
                ran.finished,
                reasons=ran.reasons,
                late=longer(settings),
                command=line,
                work_dir=shown,
                shell_path=program.path,
            )
            steps.append(step)
            if step.exit_code and not continue_on_error:
                stopped_at = index
                break
    finally:
        await asyncio.shield(asyncio.to_thread(stack.close))
    kept.work_dir, kept.env = folder, given
    sessions.keep(kept)
    result = ShellResult(
        session=kept.id, shell=program.name, platform=sys.platform, results=steps, stopped_at=stopped_at
    )
    # A session that keeps nothing is as good as the next, and its name costs some thirty tokens.
    begun = not session and (session is not None or folder is not None or bool(given))
    return result.told(begun=begun, only=command is not None)


def _wanted(command: ShellLine | None, commands: Sequence[ShellLine] | None, settings: ToolSettings) -> list[ShellLine]:
    if (command is None) == (commands is None):
        raise ToolError(Code.INVALID_ARGS, "exactly one of command and commands is needed")
    wanted = [command] if command is not None else list(commands or ())
    if not wanted:
        raise ToolError(Code.INVALID_ARGS, "commands: the list is empty")
    if len(wanted) > settings.shell_max_commands:
        raise ToolError(
            Code.COMMAND_DENIED, f"there are {len(wanted)} commands, more than {settings.shell_max_commands}"
        )
    return wanted


def _split(
    wanted: Sequence[ShellLine], folder: JailedPath | None, settings: ToolSettings
) -> list[tuple[tuple[FileCommand, ...], str]]:
    return [
        line.split(folder, settings.shell_blocklist_extra)
        if len(line.text) <= settings.shell_max_command_bytes
        else ((), line.text)
        for line in wanted
    ]


def _check(wanted: Sequence[str], shell: str, settings: ToolSettings, confined: bool) -> None:
    for line in wanted:
        check(
            line,
            shell=shell,
            extra=settings.shell_blocklist_extra,
            heuristics=settings.shell_heuristics,
            max_bytes=settings.shell_max_command_bytes,
            own=(os.getpid(), os.getppid()),
            confined=confined,
        )
