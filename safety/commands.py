"""The parameter types of tools that start a program by name: never a shell line, only what the operator allows."""

import difflib
import json
from collections.abc import Sequence
from typing import Annotated

from .errors import Code, ToolError
from .guard import Guard, GuardContext
from .variables import check_variables

METACHARACTERS = ";&|<>$(){}[]*?!#~`\r\n\0"
"""No executable of an allowlist needs one, and with none of them a name means the same to every shell."""


MAX_NAMED = 12
"""Allowed commands that a refusal names; a guess."""

CLOSE = 0.75
"""Similarity from which a name is taken for a slip of another; a guess."""

INSTEAD = {
    **dict.fromkeys(("eslint", "jest", "mocha", "prettier", "vitest"), "npx runs the project's own"),
    "rm": "delete_file deletes",
    "rmdir": "delete_file deletes",
    "wget": "download_file fetches",
    "sh": "shell runs command lines, run_script scripts",
    "bash": "shell runs command lines, run_script scripts",
    "kill": "process_kill ends what process_start started",
}
"""What there is for commands that are often tried, for the hint."""


def executable(raw: str, judging: GuardContext) -> str:
    """Insist on the plain name of an allowed command. `unsafe` lifts the rules on slashes and on the list."""
    if not raw.strip():
        raise ToolError(Code.COMMAND_DENIED, "the command is empty", "name an executable; its arguments go into args")
    allowed = judging.policy.allowed_commands
    first, *words = raw.split()
    # A whole command line is the usual mistake, and then nothing has to be configured.
    split = f"the words after {first} belong into args" if words and first in allowed else None
    if any(c in raw for c in ";&|<>"):
        split = "shell takes a whole line"
    elif (name := raw.rpartition("/")[2]) in allowed:
        split = f"{name} without a folder is the project's own, if it has one"
    path = "/" in raw or "\\" in raw
    if path and not judging.unsafe:
        raise ToolError(
            Code.COMMAND_DENIED,
            f"{_shown(raw)} contains a slash; only the name of a command is accepted",
            split or "name an executable on the PATH",
        )
    if found := next((c for c in raw if c in METACHARACTERS), None):
        raise ToolError(
            Code.COMMAND_DENIED,
            f"{_shown(raw)} contains {found!r}; a command is one name, no shell line",
            "put the arguments into args, each as it is; shell takes a whole line",
        )
    if (path or raw not in allowed) and not judging.override(f"command {raw}"):
        raise ToolError(
            Code.COMMAND_DENIED,
            f"{_shown(raw)} is not an allowed command; {_those_allowed(raw, allowed)}",
            split or INSTEAD.get(first) or "allowed_commands in the configuration names what may run",
        )
    return raw


def _those_allowed(raw: str, allowed: Sequence[str]) -> str:
    """Return the allowed commands, of many only those whose names are like the one that was asked for."""
    if len(allowed) <= MAX_NAMED:
        return f"allowed: {', '.join(allowed) or '(none)'}"
    near = difflib.get_close_matches(raw[:100], allowed, 3, CLOSE)
    return f"near: {', '.join(near)}" if near else f"the description names the {len(allowed)} that are"


def arguments(raw: list[str], judging: GuardContext) -> list[str]:
    """Insist on arguments that can reach a program: a NUL would end one early."""
    for index, argument in enumerate(raw):
        if "\0" in argument:
            raise ToolError(Code.COMMAND_DENIED, f"args[{index}] contains a NUL character")
    return raw


def _shown(raw: str) -> str:
    return repr(raw if len(raw) <= 100 else raw[:100] + "...")


Command = Annotated[str, Guard(executable)]
"""The name of a program that the operator allows. The handler gets it as it was given."""

Arguments = Annotated[Sequence[str], Guard(arguments, accepts=list[str])]
"""Arguments for a program, none of which a shell sees."""

MAX_SCRIPT_ARGUMENTS, MAX_SCRIPT_ARGUMENT = 256, 16 * 1024
"""How many arguments a script may get, and bytes of each."""


def script_arguments(raw: list[str], judging: GuardContext) -> list[str]:
    """Insist on arguments that can reach a script and are within its bounds."""
    if len(raw) > MAX_SCRIPT_ARGUMENTS or any(len(each.encode()) > MAX_SCRIPT_ARGUMENT for each in raw):
        raise ToolError(
            Code.INVALID_ARGS, f"args: at most {MAX_SCRIPT_ARGUMENTS} of {MAX_SCRIPT_ARGUMENT} bytes are passed on"
        )
    return arguments(raw, judging)


MAX_STDIN = 1 << 20
"""Bytes of input that a call may hand to a program."""


def program_input(raw: str, judging: GuardContext) -> bytes:
    """Insist on input within the bound. The handler gets UTF-8."""
    data = raw.encode("utf-8", "surrogatepass")
    if len(data) > MAX_STDIN:
        raise ToolError(Code.TOO_LARGE, f"stdin has {len(data)} bytes, more than {MAX_STDIN}", "write it to a file")
    return data


def variables(raw: dict[str, str | int | float], judging: GuardContext) -> dict[str, str]:
    """Insist on variables that are bounded, well-formed and not code. Numbers become text."""
    env = {name: value if isinstance(value, str) else json.dumps(value) for name, value in raw.items()}
    check_variables(env)
    return env


ScriptArguments = Annotated[Sequence[str], Guard(script_arguments, accepts=list[str])]
"""Arguments for a script, none of which a shell sees."""

Variables = Annotated[dict[str, str], Guard(variables, accepts=dict[str, str | int | float])]
"""Environment variables for a command. The handler gets text."""

Input = Annotated[bytes, Guard(program_input, accepts=str)]
"""What a program reads from its stdin. The handler gets bytes."""
