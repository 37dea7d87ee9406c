"""completion: scripts that complete the command line in bash, zsh and fish, made from its parsers."""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...tools.catalogue import KNOWN_TOOLS

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True)
class Word:
    """An option, or a positional argument: how it is written, what its value may be, and what it is for.

    values is None where it takes none; files and folders stand for those of the file system.
    """

    names: tuple[str, ...]
    values: Sequence[str] | None
    files: bool
    folders: bool
    help: str


def script(shell: str, commands: Mapping[str, str], parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """Return the script for a shell. parsers: that of each command, and under the empty name that of the flags."""
    words = {name: _words(parser) for name, parser in parsers.items()}
    if shell == "fish":
        return _fish(commands, words)
    body = _bash(commands, words)
    return f"autoload -Uz compinit bashcompinit\ncompinit\nbashcompinit\n\n{body}" if shell == "zsh" else body


def _words(parser: argparse.ArgumentParser) -> list[Word]:
    return [
        Word(
            tuple(action.option_strings),
            None if action.nargs == 0 else _values(action),
            action.metavar == "FILE",
            action.metavar == "DIR",
            _first_part(action.help or ""),
        )
        for action in parser._actions
    ]


def _values(action: argparse.Action) -> Sequence[str]:
    """Return the values that are known in advance."""
    if action.choices is not None:
        return tuple(map(str, action.choices))
    metavar = str(action.metavar)
    if action.dest in ("tool", "name"):
        return tuple(KNOWN_TOOLS)
    return metavar.split("|") if re.fullmatch(r"[a-z|]+", metavar) else ()


def _first_part(text: str) -> str:
    return re.split(r"[;(]", text)[0].strip().replace("%%", "%")


def _bash(commands: Mapping[str, str], words: Mapping[str, Sequence[Word]]) -> str:
    takers = {name: word for each in words.values() for word in each if word.values is not None for name in word.names}
    known = {name: word for name, word in takers.items() if word.values or word.files or word.folders}
    cases = [
        f'        {name}) COMPREPLY=($(compgen {_bash_values(word)} -- "$cur")); return ;;'
        for name, word in known.items()
    ]
    by_command = [f'        {name}) words="{_offered(words[name], words[""])}" ;;' for name in commands]
    lines = [
        "_toolbox_mcp() {",
        '    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command="" before="" words i',
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        '        case "$before" in',
        f'            {"|".join(takers)}) before=""; continue ;;',
        "        esac",
        "        before=${COMP_WORDS[i]}",
        '        case "$before" in',
        f"            {'|'.join(commands)}) command=$before; break ;;",
        "        esac",
        "    done",
        '    case "$prev" in',
        *cases,
        f"        {'|'.join(takers)}) return ;;",
        "    esac",
        '    case "$command" in',
        *by_command,
        f'        *) words="{" ".join(commands)} {_offered(words[""])}" ;;',
        "    esac",
        '    COMPREPLY=($(compgen -W "$words" -- "$cur"))',
        "}",
        "complete -F _toolbox_mcp toolbox-mcp",
    ]
    return "\n".join(lines) + "\n"


def _bash_values(word: Word) -> str:
    return "-f" if word.files else "-d" if word.folders else f'-W "{" ".join(word.values or ())}"'


def _offered(*words: Sequence[Word]) -> str:
    """Return what is offered where a word begins: options, and the values of a positional argument."""
    return " ".join(dict.fromkeys(name for each in words for word in each for name in word.names or word.values or ()))


def _fish(commands: Mapping[str, str], words: Mapping[str, Sequence[Word]]) -> str:
    head = "complete -c toolbox-mcp"
    lines = [f"{head} -f"]
    unseen = f'-n "not __fish_seen_subcommand_from {" ".join(commands)}"'
    lines += [f"{head} {unseen} -a {name} -d {_quoted(_first_part(what))}" for name, what in commands.items()]
    for name, each in words.items():
        where = f'-n "__fish_seen_subcommand_from {name}" ' if name else ""
        lines += [f"{head} {where}{_fish_word(word)}" for word in each if word.names or word.values]
    return "\n".join(lines) + "\n"


def _fish_word(word: Word) -> str:
    options = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in word.names]
    if word.values is not None:
        known = "(__fish_complete_directories)" if word.folders else " ".join(word.values)
        options += ["-r -F"] if word.files else [f"-x -a '{known}'"] if word.names else [f"-a '{known}'"]
    return " ".join([*options, "-d", _quoted(word.help)])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
