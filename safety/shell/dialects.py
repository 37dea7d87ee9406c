"""Shells whose grammar is not that of sh: fish, PowerShell and cmd.

Read with small tokenizers that know the plain forms of commands and refuse everything else: a line that they
accept means what they say, and many lines that are harmless are refused.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping

from .script import RefusedError, excerpt, names
from .wrappers import RUNNERS

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

# Every token that is understood, by kind; what matches none of them is refused.
FISH = re.compile(
    r"(?P<gap>[ \t]+|\\\n|\#[^\n]*)"
    r"|(?P<cut>&&|\|\||&\||[;\n|&()])"
    r"|(?P<redirect>[0-9]*(?:>>|>\?|>|<)(?:&[0-9]+|&-)?|&>>?)"
    r"|(?P<word>(?:[A-Za-z0-9_./:@%+=,^-]|'[^'\\]*'|\"[^\"\\$`(]*\")+)(?=[ \t\n;|&()<>]|$)"
    r"|(?P<other>(?:[A-Za-z0-9_./:@%+=,^~*?{}\[\]!-]|\$[A-Za-z0-9_]+|\\[^\n]|'[^'\\]*'|\"(?:[^\"\\(`]|\\.)*\")+)"
    r"(?=[ \t\n;|&()<>]|$)"
)
FISH_BEFORE = names("and or not begin if while else time command builtin exec nohup nice end ! env setsid xargs")
SHELLS = names("sh bash zsh dash ksh ash mksh yash rbash fish csh tcsh pwsh powershell cmd nu elvish xonsh")
FISH_REFUSED = (
    names("eval source . alias abbr function functions bind trap complete emit block fish_indent")
    | SHELLS
    | names("kill")
    | (RUNNERS - FISH_BEFORE)
)

POWERSHELL = re.compile(
    r"(?P<gap>[ \t]+|\#[^\n]*)"
    r"|(?P<cut>&&|\|\||[;\n|{}()]|\$\()"
    r"|(?P<redirect>[0-9*]?>>?(?:&[0-9])?)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_.:/\\-]*|\.{0,2}[/\\][A-Za-z0-9_.:/\\-]+)(?=[\s;|(){},>=]|$)"
    r"|(?P<other>'(?:[^'‘’‚‛]|'')*'|\"(?:[^\"“”„`$]|\"\"|\$[A-Za-z_][A-Za-z0-9_]*|\$(?=[\" .,]))*\""
    r"|\$(?:env:)?[A-Za-z_?][A-Za-z0-9_]*|-[A-Za-z][A-Za-z0-9]*:?|[0-9][A-Za-z0-9_.:/\\-]*|[-+*/%]?=|[,*?+/.]|-|[A-Za-z0-9_.*?/\\:-]+)"
)
POWERSHELL_REFUSED = names(
    "iex invoke-expression icm invoke-command start-process saps start start-job sajb invoke-item ii set-alias new-alias sal "
    "nal add-type import-module ipmo new-object invoke-wmimethod invoke-cimmethod register-scheduledtask "
    "wsl set-item si new-item function filter trap using workflow configuration kill"
) | SHELLS | RUNNERS  # fmt: skip
POWERSHELL_BEFORE = names(
    "if else elseif while do until for foreach switch try catch finally return exit throw begin process end"
)

CMD = re.compile(
    r"(?P<gap>[ \t]+)|(?P<cut>&&|\|\||[&|()])|(?P<redirect>[0-9]?(?:>>|>|<)(?:&[0-9])?)|(?P<word>(?:[^\s&|()<>^%!\"]|\"[^\"%!\n]*\")+)"
)
# Windows has programs of its own by these names; behind Unix's, any word may be a command.
CMD_EITHER = names("find timeout time")
CMD_REFUSED = names("if for call start wsl forfiles setlocal doskey goto") | SHELLS | (RUNNERS - CMD_EITHER)


def fish(text: str) -> Iterator[str]:
    """Yield the names of the commands that fish would run."""
    yield from _names(text, FISH, FISH_BEFORE, FISH_REFUSED)


def powershell(text: str) -> Iterator[str]:
    """Yield the names of the commands that PowerShell would run."""
    if re.search(r"\.\s*[A-Za-z_]\w*\s*\(|\$executioncontext", text, re.IGNORECASE):
        raise RefusedError("calls of methods are not looked through in PowerShell")
    if re.search(r"(?:alias|function|variable)\s*:", text, re.IGNORECASE):
        raise RefusedError("the drives of aliases and functions change what a name means")
    yield from _names(text, POWERSHELL, POWERSHELL_BEFORE, POWERSHELL_REFUSED)


def cmd(text: str) -> Iterator[str]:
    """Yield the names of the commands that cmd would run."""
    if "\n" in text:
        raise RefusedError("several lines in cmd")
    if any(c == "\xff" or unicodedata.category(c)[0] in "ZC" for c in text if c > "~"):
        # cmd divides words at some of them.
        raise RefusedError("an invisible or unusual blank character")
    for name in _names(text, CMD, frozenset(), CMD_REFUSED):
        bare = name.strip('"@').lstrip("@,;=")
        if not bare:
            raise RefusedError(f"{excerpt(name)} is no name of a command")
        yield bare
        # `del/f`, `del,x` and `echo.` are commands with an argument.
        for part in re.split(r"[,;=+\[\]]", bare):
            yield from filter(None, (part, part.partition("/")[0].rpartition("\\")[2], part.partition(".")[0]))


def _names(text: str, tokens: re.Pattern[str], before: frozenset[str], refused: frozenset[str]) -> Iterator[str]:
    """Cut a text into commands and yield the first word of each."""
    if found := CONTROL.search(text):
        raise RefusedError(f"control character U+{ord(found[0]):04X}")
    at, first, target, depth, every = 0, True, False, 0, False
    while at < len(text):
        found = tokens.match(text, at)
        if found is None or not found[0] or (found[0][0] == "#" and at and text[at - 1] not in " \t\n;|&(){}"):
            # Inside a word a # begins no comment.
            raise RefusedError(f"this does not parse near {excerpt(text[max(0, at - 10) : at + 20])}")
        at = found.end()
        match found.lastgroup:
            case "gap":
                continue
            case "cut":
                depth += (found[0] in ("(", "$(", "{")) - (found[0] in (")", "}"))
                # Behind a block of PowerShell the next statement needs no separator.
                first, every = found[0] != ")", False
                if depth < 0 or target:
                    raise RefusedError("this does not parse")
            case "redirect":
                target = "&" not in found[0].lstrip("&")
            case _ if target:
                target = False
            case "word" if first:
                word = found[0]
                if '"' in word or "'" in word:
                    if tokens is CMD and not re.fullmatch(r'"[^"]*"', word):
                        raise RefusedError(f"quotes inside the name {excerpt(word)}")
                    word = re.sub(r"['\"]", "", word)
                name = re.split(r"[/\\]", word)[-1].lower().removesuffix(".exe")
                if name in refused or word.startswith("-") or (tokens is FISH and "=" in word):
                    raise RefusedError(f"{name} is not looked through in this shell")
                yield word
                first = name in before
                every = tokens is CMD and name in CMD_EITHER
            case "word" if every:
                yield found[0].strip('"').removeprefix("/") or "/"
            case _ if tokens is POWERSHELL and re.fullmatch(r"[-+*/%]?=|in", found[0], re.IGNORECASE):
                # What follows an assignment is a command again.
                first = True
            case _ if first and not (tokens is POWERSHELL and re.match(r"['\"$0-9]", found[0])):
                raise RefusedError(f"the name of a command has to be literal, not {excerpt(found[0])}")
            case _:
                first = False
    if depth or target:
        raise RefusedError("the end is missing")


DIALECTS: Mapping[str, Callable[[str], Iterator[str]]] = {
    "fish": fish,
    "pwsh": powershell,
    "powershell": powershell,
    "cmd": cmd,
}
