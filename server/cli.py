"""The command line: `toolbox-mcp [COMMAND] [FLAGS]`.

Flags are taken out first, wherever they stand, so that every command knows all of them. Nothing heavy is imported
before the configuration holds, and then only what the command needs.
"""

import argparse
import errno
import io
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .config.checks import without_effect
from .config.errors import ConfigError
from .config.flags import Parser, flag_names, flag_parser, read_flags, refuse_flag
from .config.kinds import did_you_mean
from .config.load import Config, load_flags
from .sdk_import import quick_imports

BAD_CONFIGURATION = 2
"""Exit status for flags, settings or arguments that cannot be used."""
BROKEN_PIPE = 141
"""Exit status when the reader of the output is gone, as a shell reports SIGPIPE."""
UNWRITABLE = frozenset((errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
"""What the system says when output cannot be written."""

COMMANDS: Mapping[str, str] = {
    "serve": "serve MCP until the client leaves (the default)",
    "tools": "list the tools: group, access, whether exposed or why not, tokens of the listing",
    "call": "make one call through the same pipeline and print the answer; exit 1 if it is an error",
    "doctor": "tell what works here; exit 1 if the configuration needs something that is missing",
    "config": "print every setting, its value and where it came from; --example prints a settings file",
    "install": "add this server to the configuration of a client, after showing the change",
    "log": "print the records of calls, newest first",
    "completion": "print a script that completes this command line in a shell",
}

DESCRIPTION = """\
Developer tools over a folder, for any MCP client. Reading works at once; whatever writes or runs something has to be
enabled. Flags may stand before or after the command."""

EXAMPLES = """\
examples:
  toolbox-mcp --root ~/project                      read-only tools over a project, on stdin and stdout
  toolbox-mcp --root . --preset coder               also edit, run programs and tests, commit
  toolbox-mcp install claude-code --root . --preset beside
  toolbox-mcp --root . --transport http --port 8765
  toolbox-mcp tools --root . --enable-exec
  toolbox-mcp call read_file '{"path": "README.md"}' --root ."""


@dataclass(frozen=True)
class Surroundings:
    """Where a command line runs. guard runs a function so that none of its child processes outlives it."""

    env: Mapping[str, str]
    cwd: Path
    out: IO[str]
    err: IO[str]
    stdin: IO[str]
    guard: Callable[[Callable[[], int]], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line of this process and return its exit status; bad configuration is one line and 2."""
    _open_streams()
    try:
        around = Surroundings(os.environ, _cwd(), sys.stdout, sys.stderr, sys.stdin, _guarded)
        return _printed(lambda: run(sys.argv[1:] if argv is None else argv, around))
    except ConfigError as e:
        return _refused(e, sys.stderr)
    except KeyboardInterrupt:
        return 130


def _open_streams() -> None:
    """Make the streams take any text; what was closed from the start is empty, or swallows what is written."""
    sys.stdin = sys.stdin or io.StringIO()
    sys.stdout = sys.stdout or io.StringIO()
    sys.stderr = sys.stderr or io.StringIO()
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _printed(work: Callable[[], int]) -> int:
    """Run work until its output is out; a reader that is gone, or a full disk, is a status of its own."""
    try:
        status = work()
        sys.stdout.flush()
        return status
    except OSError as e:
        if e.errno not in UNWRITABLE:
            raise
        # What is still buffered would fail again at exit, with a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if e.errno == errno.EPIPE:
            return BROKEN_PIPE
        sys.stderr.write(f"toolbox-mcp: the output cannot be written: {e.strerror}\n")
        return 1


def run(argv: Sequence[str], around: Surroundings) -> int:
    """Run one command line and return its exit status."""
    return _one_line(lambda: _run(argv, around), around)


def _run(argv: Sequence[str], around: Surroundings) -> int:
    flags = read_flags(argv)
    asked = _command(flags.rest, around)
    if asked is None:
        return 0
    if asked.command == "config" and asked.example:
        from .config.example import example_yaml

        around.out.write(example_yaml())
        return 0
    if asked.command == "completion":
        from .commands.completion import script

        parsers = {"": _parser(), **{name: _command_parser(name) for name in COMMANDS}}
        around.out.write(script(asked.shell, COMMANDS, parsers))
        return 0
    config = load_flags(flags, around.env, cwd=around.cwd, serves=asked.command in ("serve", "call"))
    match asked.command:
        case "tools":
            from .commands.serve import tool_table

            _warn(config, around)
            around.out.write(tool_table(config, as_json=asked.json))
            return 0
        case "call":
            return _call(config, asked, around)
        case "doctor":
            from .commands.doctor import examine

            return examine(config, around.env, around.out, as_json=asked.json)
        case "config":
            from .commands.config import checked, show

            _warn(config, around)
            around.out.write(checked(config) if asked.check else show(config, as_json=asked.json))
            return 0
        case "install":
            from .commands.install import install

            return install(
                asked.client,
                config,
                around.out,
                around.stdin,
                print_only=asked.print,
                remove=asked.remove,
                yes=asked.yes,
            )
        case "log":
            from .commands.log import Wanted, print_log

            wanted = Wanted(
                asked.tool,
                asked.status,
                asked.limit,
                asked.json,
                tenant=asked.tenant,
                agent=asked.agent,
                execution=asked.execution,
                principal=asked.principal,
                summary=asked.summary,
            )
            return print_log(config, wanted, around.out, follow=asked.follow)
        case _:
            return around.guard(lambda: _serve(config, around))


def _warn(config: Config, around: Surroundings) -> None:
    for warning in without_effect(config, config.sources):
        around.err.write(f"toolbox-mcp: warning: {warning}\n")


def _serve(config: Config, around: Surroundings) -> int:
    _warn(config, around)
    with quick_imports(web=config.transport != "stdio"):
        from .commands.serve import serve

    return _one_line(lambda: serve(config, around.env, around.err), around)


def _call(config: Config, asked: argparse.Namespace, around: Surroundings) -> int:
    arguments = _arguments(asked.arguments, around)

    def work() -> int:
        from .commands.serve import call, start_log

        start_log(config, around.err)
        answer = call(config, around.env, asked.name, arguments, as_json=asked.json)
        around.out.write(answer.text)
        around.out.flush()
        return 1 if answer.is_error else 0

    return around.guard(lambda: _one_line(work, around))


def _one_line(work: Callable[[], int], around: Surroundings) -> int:
    """Run work; what makes the configuration unusable is one line, also where only the start finds it."""
    try:
        return work()
    except ConfigError as e:
        return _refused(e, around.err)


def _refused(e: ConfigError, err: IO[str]) -> int:
    err.write(f"toolbox-mcp: {e}\n")
    return BAD_CONFIGURATION


def _arguments(text: str, around: Surroundings) -> dict[str, object]:
    import json

    written = around.stdin.read() if text == "-" else text
    try:
        found = json.loads(written)
    except (ValueError, RecursionError) as e:
        raise ConfigError(f"call: the arguments are not JSON: {e}") from None
    if not isinstance(found, dict):
        raise ConfigError('call: the arguments must be a JSON object, such as \'{"path": "."}\'')
    return found


def _command(rest: list[str], around: Surroundings) -> argparse.Namespace | None:
    """Read what is left when the flags are gone; None when only help or the version was asked for."""
    if rest and rest[0].startswith("-") and rest[0] not in ("-h", "--help", "--version"):
        raise refuse_flag(rest[0], [*flag_names(), "--help", "--version"])
    if rest and not rest[0].startswith("-") and rest[0] not in COMMANDS:
        hint = did_you_mean(rest[0], COMMANDS)
        raise ConfigError(f"no command {rest[0]}; {hint or 'there are ' + ', '.join(COMMANDS)}")
    if "--version" in rest[:1]:
        from importlib.metadata import version

        around.out.write(f"toolbox-mcp {version('toolbox-mcp')}\n")
        return None
    parser = _parser()
    if not rest:
        return argparse.Namespace(command="serve")
    if rest[0] in ("-h", "--help"):
        around.out.write(parser.format_help())
        return None
    one = _command_parser(rest[0])
    before = rest[: rest.index("--")] if "--" in rest else rest
    if "-h" in before or "--help" in before:
        around.out.write(one.format_help())
        return None
    asked, extra = one.parse_known_args(rest[1:])
    if extra:
        own = [option for action in one._actions for option in action.option_strings]
        raise refuse_flag(extra[0], [*flag_names(), *own])
    asked.command = rest[0]
    return asked


def _parser() -> Parser:
    width = max(map(len, COMMANDS)) + 2
    commands = "\n".join(f"  {name:{width}}{what}" for name, what in COMMANDS.items())
    parser = Parser(
        prog="toolbox-mcp",
        usage="toolbox-mcp [COMMAND] [FLAGS]",
        description=f"{DESCRIPTION}\n\ncommands:\n{commands}",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[flag_parser()],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    return parser


def _command_parser(name: str) -> Parser:
    what = COMMANDS[name]
    parser = Parser(
        prog=f"toolbox-mcp {name}",
        description=f"{what[0].upper()}{what[1:]}.",
        epilog="Every flag of `toolbox-mcp --help` works here too.",
        allow_abbrev=False,
    )
    if name in ("tools", "call", "doctor", "config", "log"):
        parser.add_argument("--json", action="store_true", help="print JSON")
    if name == "call":
        parser.add_argument("name", metavar="NAME", help="name of the tool")
        parser.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help="its arguments; - reads stdin")
    if name == "config":
        parser.add_argument("--show", action="store_true", help="print the settings (the default)")
        parser.add_argument("--check", action="store_true", help="only say whether the settings hold; exit 2 if not")
        parser.add_argument("--example", action="store_true", help="print a settings file with every setting")
    if name == "install":
        from .commands.install import CLIENTS

        parser.add_argument("client", metavar="CLIENT", choices=sorted(CLIENTS), help=", ".join(sorted(CLIENTS)))
        parser.add_argument("--print", action="store_true", help="print the entry and change nothing")
        parser.add_argument("--remove", action="store_true", help="take the entry out again")
        parser.add_argument("--yes", action="store_true", help="do not ask")
    if name == "completion":
        from .commands.completion import SHELLS

        parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    if name == "log":
        parser.add_argument("--follow", action="store_true", help="go on with each call as it ends")
        parser.add_argument("--tool", metavar="NAME", help="only calls of this tool")
        parser.add_argument("--status", metavar="STATUS", help="only calls with this status")
        for column in ("tenant", "agent", "execution", "principal"):
            parser.add_argument(f"--{column}", metavar="NAME", help=f"only calls of this {column}")
        parser.add_argument("--summary", action="store_true", help="a row for each tool: calls, errors, times, tokens")
        parser.add_argument("--limit", metavar="N", type=_count, default=100, help="calls at most (default: 100)")
    return parser


def _count(text: str) -> int:
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError("expected a whole number, at least 1")
    return int(text)


def _cwd() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise ConfigError("the working directory does not exist any more") from None


def _guarded(work: Callable[[], int]) -> int:
    from ..sandbox.process.supervisor import guarded

    guarded(lambda: _printed(work))
