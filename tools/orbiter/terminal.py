"""terminal, of the orbiter profile."""

import os
import re
import sys

from ...safety.errors import Code, ToolError
from ...safety.shell.rules import check
from ...sandbox.service import QUALIFYING
from ..base import Access, tool
from ..results import Verbatim
from ..services import Settings, Shells

BLOCKED = (
    "rm", "rmdir", "mkfs", "dd", "shutdown", "reboot", "halt", "poweroff",
    "kill", "killall", "pkill", "format", "del", "erase", "rd",
)  # fmt: skip
"""Names that are refused where the operator names none (TOOLS.md §9)."""

MAX_CHARACTERS = 100_000
"""Of each stream, from its end."""

_NAMED = re.compile(r"refused: (\S+) is not allowed in shell commands")


@tool(
    Access.EXEC,
    deadline=lambda settings, given: settings.terminal_timeout + 5 + (QUALIFYING if settings.shell_sandbox else 0),
)
async def terminal(shells: Shells, settings: Settings, command: str) -> Verbatim:
    """Run a shell command in the workspace. Returns exit_code, stdout, stderr and platform as JSON."""
    if not command.strip():
        raise ToolError(Code.COMMAND_DENIED, "Empty command")
    shells = await shells.settled()
    program = shells.find()
    blocked = BLOCKED if settings.terminal_blocklist is None else settings.terminal_blocklist
    if blocked:
        _refuse(command, program.name, blocked, settings.shell_max_command_bytes)
    ran = await shells.run(
        program, command, cwd=None, env=await shells.environment(), timeout=settings.terminal_timeout
    )
    done = ran.finished
    if done.timed_out:
        raise ToolError(Code.TIMEOUT, f"Command timed out after {settings.terminal_timeout:g}s")
    return Verbatim(
        {
            "exit_code": done.exit_code,
            "stdout": done.stdout.text[-MAX_CHARACTERS:],
            "stderr": done.stderr.text[-MAX_CHARACTERS:],
            "platform": sys.platform,
        }
    )


def _refuse(command: str, shell: str, blocked: tuple[str, ...], max_bytes: int) -> None:
    names = frozenset(name.lower() for name in blocked)
    try:
        check(command, shell=shell, hard=names, heuristics=False, max_bytes=max_bytes, own=(os.getpid(), os.getppid()))
    except ToolError as refused:
        named = _NAMED.search(refused.error)
        if named is None:
            raise
        raise ToolError(Code.COMMAND_DENIED, f"Command '{named[1]}' is blocked by sandbox policy") from None
