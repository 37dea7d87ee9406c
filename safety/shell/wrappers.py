"""Programs, and builtins such as exec, that run a command which they are given: what each of them would run."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .script import RefusedError, Word, excerpt, names

# A bare `stdin` or number is one of them behind `cd /dev`.
STREAM = re.compile(
    r"(?:.*/)?dev/+(?:stdin|fd|tcp|udp|tty|pts)\b.*|(?:.*/)?proc/.*|-|(?:.*/)?(?:stdin|tty|ptmx|[0-9]+)", re.DOTALL
)

OPTIONS = frozenset(
    [
        "errexit",
        "nounset",
        "pipefail",
        "xtrace",
        "verbose",
        "noglob",
        "noclobber",
        "noexec",
        "allexport",
        "errtrace",
        "functrace",
        "hashall",
        "monitor",
        "notify",
        "physical",
        "errreturn",
        "nullglob",
        "globstar",
        "dotglob",
        "nocasematch",
        "nocaseglob",
        "failglob",
        "lastpipe",
        "inherit_errexit",
        "globskipdots",
    ]
)
"""Options of set, shopt and shells that leave the way a line is read alone. Those that are not here are refused."""

LETTERS = "abefhlmnpruvxBCETP"
"""The same as letters."""

HARMLESS_OPTIONS = frozenset(("login", "norc", "noprofile", "noediting", "verbose", "restricted"))
"""bash's long options that leave the way it reads its arguments and text alone."""

LONG_OPTIONS = HARMLESS_OPTIONS | frozenset(
    ("rcfile", "init-file", "posix", "help", "version", "wordexp", "protected", "debugger", "debug", "pretty-print")
)
"""All of bash's long options."""


class WrapperContext(Protocol):
    """What a wrapper asks about the command in it."""

    shell: str
    replaced: list[str]
    own: frozenset[int]

    def text(self, text: str, shell: str) -> None:
        """Judge everything that a text runs."""
        ...

    def words(self, words: Sequence[Word]) -> None:
        """Judge a command given as words."""
        ...

    def name(self, raw: str) -> str:
        """Judge the name of a command."""
        ...

    def script(self, name: str, path: str) -> None:
        """Judge the file that a shell is to run."""
        ...

    def variable(self, name: str) -> None:
        """Judge the name of a variable that gets a value."""
        ...


@dataclass(frozen=True)
class Wrapper:
    """A program that runs another one. flags stand alone, values take a word; then so many operands come first."""

    flags: str = ""
    values: str = ""
    long: Collection[str] = ()
    operands: int = 0


WRAPPERS: Mapping[str, Wrapper] = {
    "builtin": Wrapper(),
    "exec": Wrapper("cl", "a"),
    "nohup": Wrapper(),
    "nice": Wrapper("", "n", ("adjustment=",)),
    "timeout": Wrapper("v", "ks", ("foreground", "preserve-status", "verbose", "kill-after=", "signal="), 1),
    "setsid": Wrapper("cfw", "", ("ctty", "fork", "wait")),
    "stdbuf": Wrapper("", "ioe", ("input=", "output=", "error=")),
    "time": Wrapper("apv", "fo", ("append", "portability", "verbose", "format=", "output=")),
    "ionice": Wrapper("t", "cn", ("ignore", "class=", "classdata=")),
    "chrt": Wrapper("abdfiorRv", "TPD", (), 1),
    "taskset": Wrapper("ac", "", ("all-tasks", "cpu-list"), 1),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "doas": Wrapper("ns", "uC"),
    "unshare": Wrapper("muipnUCTfrc", "SGR", ("fork", "map-root-user", "mount-proc", "net", "pid", "mount", "user")),
    "chroot": Wrapper("", "", ("userspec=", "groups=", "skip-chdir"), 1),
    "coreutils": Wrapper(),
}

STARTERS = names(
    "nsenter setpriv prlimit setarch linux32 linux64 strace ltrace valgrind gdb fakeroot proot firejail parallel sem script "
    "sudo su sg runuser pkexec run0 gosu su-exec systemd-run start-stop-daemon chronic ifne unbuffer rlwrap chpst softlimit cpulimit "
    "faketime eatmydata catchsegv xvfb-run dbus-run-session caffeinate screen tmux dtach abduco at batch npx uvx entr "
    "ssh-agent dbus-launch i386 x86_64 uname26 numactl perf choom uclampset tini dumb-init bwrap trickle proxychains torsocks"
)
"""Programs that start another one, with options of their own: every word behind them is taken for a name."""

FIRST_IS_PROGRAM = names(
    "strace ltrace valgrind gdb fakeroot parallel sem chronic ifne unbuffer rlwrap eatmydata catchsegv xvfb-run caffeinate entr npx uvx"
)
"""Starters whose first word that is no option is the program: what follows are its arguments."""

RUNNERS = STARTERS | frozenset(WRAPPERS) | names("command env xargs find flock watch")
"""All programs that are there to start another one."""

FIND_VALUES = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type -xtype -newer -anewer -cnewer "
    "-mtime -atime -ctime -mmin -amin -cmin -size -maxdepth -mindepth -user -group -uid -gid -perm -printf -regextype"
)
FIND_EXEC = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def unwrapped(name: str, wrapper: Wrapper, words: list[Word]) -> list[Word]:
    """Return the words behind the options and operands of a wrapper."""
    while words:
        text = literal(name, words[0])
        if text == "--":
            words = words[1:]
            break
        if not text.startswith("-") or text == "-":
            break
        words = words[1:]
        if name == "nice" and re.fullmatch(r"--?[0-9]+", text):
            continue
        if text.startswith("--"):
            option, equals, _ = text[2:].partition("=")
            if option in wrapper.long:
                continue
            if option + "=" not in wrapper.long:
                raise RefusedError(f"{name} with the option {excerpt(text)}")
            if not equals:
                words = words[1:]
            continue
        for index, letter in enumerate(text[1:], 2):
            if letter in wrapper.values:
                if index == len(text):
                    words = words[1:]
                break
            if letter not in wrapper.flags:
                raise RefusedError(f"{name} with the option {excerpt(text)}")
    for word in words[: wrapper.operands]:
        literal(name, word)
    return words[wrapper.operands :]


def starter(judge: WrapperContext, name: str, words: list[Word]) -> None:
    """Judge each word behind a program whose options are not known, and what has blanks as a text of its own."""
    named = False
    for word in words:
        # Behind the first name what is not literal is an argument, unless that name is an operand of the starter.
        if word.text is None and named and name in FIRST_IS_PROGRAM:
            continue
        text = literal(name, word)
        if re.search(r"[$`]|(?:^|=)\|", text) and not re.search(r"\s", text):
            raise RefusedError(f"{name} with {excerpt(text)}, which may be run")
        named = named or text[:1].isalnum() or text[:1] in ("/", ".")
        if re.search(r"\s", text):
            judge.text(text, "sh")
        elif re.search(r"[^/\\]$", text):
            judge.name(text)


def literal(name: str, word: Word) -> str:
    """Insist that a word behind name is known."""
    if word.text is None:
        raise RefusedError(f"{name} has to be followed by literal words, not {excerpt(word.raw)}")
    return word.text


def inner_shell(judge: WrapperContext, name: str, words: list[Word]) -> None:
    """`sh -c TEXT` is read; a shell that reads a file runs a script; one that reads its input is refused."""
    shell = {"rbash": "bash", "zsh5": "zsh"}.get(name, "ksh" if "ksh" in name else name)
    shell = shell if shell in ("bash", "zsh", "ksh", "dash") else "sh"
    inline = False
    while words:
        text = literal(name, words[0])
        if text in ("-", "--"):
            words = words[1:]
            break
        if not text.startswith(("-", "+")):
            break
        words = words[1:]
        option = text.lstrip("-")
        # bash takes its long options with a single dash, too.
        if text.startswith("--") or (option in LONG_OPTIONS and text.startswith("-")):
            if option in ("version", "help"):
                return
            if option not in HARMLESS_OPTIONS:
                raise RefusedError(f"{name} with the option {excerpt(text)}")
            continue
        # -s reads the input; an interactive shell other than bash runs what $ENV holds.
        if ("i" in text and name != "bash") or not re.fullmatch(rf"[-+][{LETTERS}ciotO]+", text):
            raise RefusedError(f"{name} with the option {excerpt(text)}")
        inline |= "c" in text
        for _ in range(text.count("o") + text.count("O")):
            if not words or literal(name, words[0]) not in OPTIONS:
                raise RefusedError(f"{name} with an option that changes how it reads")
            words = words[1:]
    if not words:
        raise RefusedError(f"{name} would run what it reads from its input, which cannot be checked")
    operand = literal(name, words[0])
    if inline:
        if any(mark in operand for mark in judge.replaced):
            raise RefusedError(f"{name} -c with a text that is filled in later")
        judge.text(operand, shell)
    else:
        judge.script(name, operand)


def _command_builtin(judge: WrapperContext, words: list[Word]) -> None:
    if words and words[0].text is not None and re.fullmatch(r"-[pvV]*[vV][pvV]*", words[0].text):
        return
    judge.words(unwrapped("command", Wrapper("p"), words))


def _env(judge: WrapperContext, words: list[Word]) -> None:
    known = Wrapper("i0v", "uC", ("ignore-environment", "null", "debug", "unset=", "chdir=", "list-signal-handling"))
    words = unwrapped("env", known, words)
    if words and words[0].text == "-":
        words = words[1:]
    while words and (name := re.match(r"([^=]*)=", words[0].prefix)):
        judge.variable(name[1])
        if not words[0].single:
            raise RefusedError(f"env with a word that may become several: {excerpt(words[0].raw)}; put it in quotes")
        words = words[1:]
    judge.words(words)


def _xargs(judge: WrapperContext, words: list[Word]) -> None:
    mark: str | None = None
    counted = False
    while words:
        text = literal("xargs", words[0])
        if text == "--":
            words = words[1:]
            break
        if not text.startswith("-"):
            break
        words = words[1:]
        found = re.fullmatch(
            r"-[0oprtx]+|--(?:null|no-run-if-empty|verbose|interactive|exit|open-tty)"
            r"|-(?P<value>[adEILnPs])(?P<attached>.*)|-i(?P<i>.*)|-[el].*"
            r"|--(?P<long>arg-file|delimiter|max-lines|max-args|max-procs|max-chars|eof|process-slot-var)(?P<equals>=.*)?"
            r"|--replace(?:=(?P<replace>.*))?",
            text, re.DOTALL,
        )  # fmt: skip
        if found is None:
            raise RefusedError(f"xargs with the option {excerpt(text)}")
        value = found["attached"]
        if (found["value"] and not value) or (found["long"] and found["equals"] is None):
            value = literal("xargs", words[0]) if words else ""
            words = words[1:]
        counted |= re.match(r"-[Lln]|--max-(?:lines|args)", text) is not None
        if found["value"] == "I":
            mark = value
        elif text.startswith(("-i", "--replace")):
            mark = found["i"] or found["replace"] or "{}"
    if counted and mark is not None:
        raise RefusedError("xargs with both a mark and a count, of which the last one holds")
    if words:
        # What xargs reads comes behind the words, or in the place of the mark.
        _replaced(judge, mark, words if mark is not None else [*words, Word("what xargs reads", None, single=False)])


def _replaced(judge: WrapperContext, mark: str | None, words: list[Word]) -> None:
    if mark is None:
        judge.words(words)
        return
    judge.replaced.append(mark)
    judge.words([Word(w.raw, None, w.prefix) if w.text == mark else w for w in words])
    judge.replaced.pop()


def _find(judge: WrapperContext, words: list[Word]) -> None:
    free = 0
    for before, word in zip([None, *words], words, strict=False):
        if before and before.text in FIND_VALUES and word.text in FIND_VALUES:
            raise RefusedError(f"find with {word.text} as the value of {before.text}")
        if word.text is None and not _is_path(word):
            if not word.single:
                raise RefusedError(f"find with a word that may become several: {excerpt(word.raw)}; put it in quotes")
            free += before is None or before.text not in FIND_VALUES
    if free > 1:
        raise RefusedError("find with several words that are not literal")
    end = len(words)
    for index in reversed(range(len(words))):
        if words[index].text in (";", "+"):
            end = index
        elif words[index].text in FIND_EXEC and (end == index + 1 or not (words[index + 1].text or "").startswith("-")):
            # Behind -name it would be a pattern, but nothing tells where that has its own value.
            _replaced(judge, "{}", words[index + 1 : end])
            end = index
        elif free and (text := (words[index].text or "").rstrip("/")):
            # The word that is not literal might be -exec.
            judge.name(text)


def _is_path(word: Word) -> bool:
    """Return True if whatever a glob in the word becomes is a path, none of which can be an option or a stream."""
    path = re.match(r"(?:\.{0,2}/)?[A-Za-z0-9_]", word.prefix)
    return (
        path is not None
        and not word.split
        and not STREAM.fullmatch(word.prefix)
        and word.prefix[:2] not in ("/d", "/p")
    )


def _flock(judge: WrapperContext, words: list[Word]) -> None:
    known = Wrapper("snuxoFv", "wEc", ("shared", "exclusive", "nonblock", "timeout=", "conflict-exit-code="), 1)
    if any((word.text or "-c").startswith(("-c", "--command")) for word in words):
        raise RefusedError("flock -c is not looked through")
    judge.words(unwrapped("flock", known, words))


def _watch(judge: WrapperContext, words: list[Word]) -> None:
    words = unwrapped("watch", Wrapper("bcegptwx", "n", ("interval=", "no-title", "exec", "color")), words)
    judge.text(" ".join(literal("watch", word) for word in words) or ":", "sh")


SPECIAL: Mapping[str, Callable[[WrapperContext, list[Word]], None]] = {
    "command": _command_builtin,
    "env": _env,
    "xargs": _xargs,
    "find": _find,
    "flock": _flock,
    "watch": _watch,
}
