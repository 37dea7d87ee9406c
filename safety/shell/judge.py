"""The rules on commands: what may not be named, and what changes the meaning of names."""

import fnmatch
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from .builtins import BUILTINS
from .dialects import DIALECTS
from .loopback import is_local
from .parser import parse
from .script import MAX_DEPTH, Command, RefusedError, Word, excerpt, names
from .wrappers import SPECIAL, STARTERS, STREAM, WRAPPERS, inner_shell, starter, unwrapped

SHELLS = names(
    "sh bash zsh dash ksh ash rbash mksh lksh pdksh ksh93 yash zsh5 bash-static bash5 zsh-static mksh-static ksh2020 "
    "oksh loksh posh hush"
)
FOREIGN_SHELLS = names("fish csh tcsh pwsh powershell cmd nu elvish xonsh osh")

# A value in one of these is code to some shell, or changes what a name means.
CODE_VARIABLES = names(
    "BASH_ENV PS4 PROMPT_COMMAND SHELLOPTS BASHOPTS BASH_ALIASES BASH_CMDS ZDOTDIR NULLCMD READNULLCMD"
)
# A value of one of these is read as arithmetic, because the variable is an integer in some shell.
INTEGERS = names(
    "SECONDS RANDOM SRANDOM OPTIND HISTCMD LINENO COLUMNS LINES TMOUT PPID BASHPID PGRP UID EUID GID EGID USER_ID KSHUID KSHEUID "
    "KSHGID KSHEGID SHLVL HISTSIZE SAVEHIST MAILCHECK LISTMAX LOGCHECK KEYTIMEOUT BAUD DIRSTACKSIZE ERRNO TTYIDLE FUNCNEST PERIOD"
)
ZSH_VARIABLES = names("aliases galiases saliases functions commands builtins options")
# Builtins that evaluate their arguments in ways no table can follow.
EVALUATING = names("alias bind compgen complete compopt fc")
OTHERS_EVALUATING = names(
    "- noglob nocorrect repeat foreach print functions zcompile setopt unsetopt emulate zmodload autoload sched hist r "
    "nameref integer float compound enum namespace zstyle zpty zle vared bindkey disable"
)
# zsh and ksh read the numbers that these take as arithmetic, in which an index can hold a command.
COUNTING = names("shift exit return break continue ulimit sleep read")
COMPARING = names("-eq -ne -lt -le -gt -ge")
VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
NUMBERS = re.compile(r"%[^%A-Za-z]*[diouxXeEfFgGaAc*]")
# GNU's programs where another system has its own by the plain name.
GNU = names("rm rmdir env nice nohup stdbuf timeout time xargs find chroot")
DECLARING = names("declare typeset local export readonly unset read mapfile readarray getopts let printf test [ wait")
DATA = names("echo printf read declare typeset local export readonly set : print mapfile readarray cat")
LIST = re.compile(r"[^=]*=\(")
EXPANDING = re.compile(r"[$`]|[<>]\(")
ENCODED = re.compile(r"\\(?:x|u00|U000000|0?)(?:24|44|60|140)")


MAX_WORK = 256 * 1024
"""Characters of a text and of the texts nested in it (`sh -c`, eval) together, which bounds the time of a check."""


@dataclass
class Judge:
    """The rules, and what has been seen so far of one command. local: refused names that may ask this machine itself."""

    blocked: frozenset[str]
    heuristics: bool
    own: frozenset[int] = frozenset()
    local: frozenset[str] = frozenset()
    depth: int = 0
    work: int = 0
    shell: str = "sh"
    latent: bool = False
    evaluates: bool = False
    replaced: list[str] = field(default_factory=list)

    def text(self, text: str, shell: str) -> None:
        """Judge everything that a text runs."""
        self.work += len(text)
        if "BASH_EXECUTION_STRING" in text:
            raise RefusedError("BASH_EXECUTION_STRING holds the line itself, its comments included")
        if self.work > MAX_WORK:
            raise RefusedError("nested texts are too long")
        outer, self.shell = self.shell, shell
        if dialect := DIALECTS.get(shell):
            for word in dialect(text):
                self.name(word)
        else:
            self._script(text, shell)
        self.shell = outer

    def finish(self) -> None:
        """Judge what only the whole shows: text that hides a command, and something that evaluates text."""
        if self.latent and self.evaluates:
            raise RefusedError("text that holds a command, together with arithmetic that could run it")

    def name(self, raw: str) -> str:
        """Judge the name of a command; return it without path, in lower case, without `.exe`."""
        base = re.split(r"[/\\]", raw)[-1].lower().removesuffix(".exe")
        if not base or any(unicodedata.category(c)[0] in "ZC" for c in base if c > "~"):
            raise RefusedError(f"{excerpt(raw)} is no name of a command")
        if not base.isascii():
            # A file system that does not tell cases apart may find a program by letters that only look like its own.
            base = unicodedata.normalize("NFKC", base).casefold()
        if base[:1] == "g" and base[1:] in GNU:
            base = base[1:]
        if base in self.blocked or any(fnmatch.fnmatchcase(base, name) for name in self.blocked if "*" in name):
            raise RefusedError(f"{base} is not allowed in shell commands")
        return base

    def _script(self, text: str, shell: str) -> None:
        script = parse(text, shell)
        self.latent |= script.latent
        self.evaluates |= script.evaluates
        for name in script.assigned:
            self.variable(name)
        for command in script.commands:
            self._command(command)
        if self.heuristics and script.bombs:
            raise RefusedError(f"the function {script.bombs[0]} starts itself again and again")
        if self.heuristics and script.background:
            raise RefusedError("a trailing & leaves a process behind; process_start is for what runs on")

    def _command(self, command: Command) -> None:
        self.latent |= command.latent
        for word in command.assigns:
            if word.raw.startswith("POSIXLY_CORRECT="):
                raise RefusedError("POSIXLY_CORRECT changes how the shell reads the line")
        if command.words:
            self.words(command.words)

    def variable(self, name: str) -> None:
        """Judge the name of a variable that gets a value."""
        if name in CODE_VARIABLES or name.startswith("BASH_FUNC_") or (self.shell == "zsh" and name in ZSH_VARIABLES):
            raise RefusedError(f"{name} is run as code by the shell")
        self.evaluates |= name in INTEGERS

    def words(self, words: Sequence[Word]) -> None:
        """Judge a command given as words, the first of which is its name."""
        if not words:
            return
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise RefusedError("nested too deeply")
        self._judge(words)
        self.depth -= 1

    def _judge(self, words: Sequence[Word]) -> None:
        first, rest = words[0], list(words[1:])
        if first.text is None or any(mark in first.text for mark in self.replaced):
            raise RefusedError(f"the name of a command has to be literal, not {excerpt(first.raw)}")
        if first.text.startswith(("!", "=", "^", "-")):
            raise RefusedError(f"{excerpt(first.raw)} is no name of a command")
        # What stands in front, such as xargs, may add arguments.
        if self.depth == 1 and first.text in self.local and is_local(first.text, rest):
            return
        name = self.name(first.text)
        if name in EVALUATING or (self.shell in ("zsh", "ksh") and name in OTHERS_EVALUATING):
            raise RefusedError(f"{name} changes what later words mean")
        if name in DATA or name in DECLARING:
            self.latent |= any(word.latent or ENCODED.search(word.raw) is not None for word in rest)
        # Where [[ is not known for certain, its words are read as those of a command.
        if name == "[[":
            self.evaluates = True
            self.latent |= any(word.latent for word in rest)
        self._counting(name, rest)
        if name in DECLARING:
            self._declaring(name, rest)
        if wrapper := WRAPPERS.get(name):
            self.words(unwrapped(name, wrapper, rest))
        elif name in SHELLS:
            inner_shell(self, name, rest)
        elif name in FOREIGN_SHELLS:
            if rest and rest[0].text in ("--version", "-v", "-V", "--help"):
                return
            raise RefusedError(f"{name} inside another shell is not looked through")
        elif special := SPECIAL.get(name) or BUILTINS.get(name):
            special(self, rest)
        elif name in STARTERS or re.fullmatch(r"ld(-.*)?\.so(\..*)?", name):
            starter(self, name, rest)

    def _counting(self, name: str, words: list[Word]) -> None:
        """Builtins that read their words as arithmetic where the shell is, or may be, zsh or ksh."""
        counts = (
            name in COUNTING
            or (name in ("test", "[") and any(word.text in COMPARING for word in words))
            or (name == "printf" and words and NUMBERS.search(words[0].text or "%d"))
        )
        if name == "printf":
            words = words[1:] if words and words[0].text is not None else words
        # A variable's name is as good as its value.
        if (
            self.shell not in ("bash", "dash")
            and counts
            and any(word.text is None or word.latent or VARIABLE.fullmatch(word.text) for word in words)
        ):
            self.evaluates = True
            self.latent |= any(word.latent for word in words)

    def _declaring(self, name: str, words: list[Word]) -> None:
        """Builtins that name variables: an index in a name is evaluated, and so is a value under some names."""
        if name == "printf" and not any(w.prefix.startswith("-v") or w.text is None for w in words[:2]):
            return
        if name == "wait" and not any(re.match(r"-[a-z]*p", w.prefix) or w.text is None for w in words):
            return
        if name in ("test", "["):
            operators = any(word.text in ("-v", "-R") for word in words)
            self.evaluates |= operators or (any(w.text is None for w in words) and any(w.latent for w in words))
            return
        for word in words:
            if name in ("declare", "typeset", "local") and re.match(r"[-+][A-Za-z]*n", word.prefix):
                raise RefusedError(f"{name} -n gives a variable another name")
            if target := re.match(r"[A-Za-z_][A-Za-z0-9_]*", word.prefix):
                self.variable(target[0])
            if word.prefix.startswith("-") and (code := next(filter(word.prefix.endswith, CODE_VARIABLES), None)):
                # `read -aPS4`
                self.variable(code)
            if LIST.match(word.prefix) and (word.text is None or EXPANDING.search(word.text)):
                raise RefusedError(f"{name} expands a list in quotes")
            dynamic = word.text is None and "=" not in word.prefix and name != "printf"
            option = re.fullmatch(r"[-+][A-Za-z]*[inp][A-Za-z]*|-v.*", word.text or "") is not None
            self.evaluates |= dynamic or option or name == "let" or "[" in word.raw
        if name in ("mapfile", "readarray") and any(w.text is None or re.match(r"-[A-Za-z]*C", w.text) for w in words):
            raise RefusedError(f"{name} -C runs what its argument says")

    def script(self, name: str, path: str) -> None:
        """Judge the file that a shell is to run, which it looks for on the PATH as well."""
        if STREAM.fullmatch(path):
            raise RefusedError(f"{name} would run what it reads from its input, which cannot be checked")
        self.name(path)
