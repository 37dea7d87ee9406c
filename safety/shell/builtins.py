"""Builtins that run a text, change how the shell reads what follows, or signal: what each of them may be given."""

import re
from collections.abc import Callable, Mapping

from .script import RefusedError, Word, excerpt
from .wrappers import LETTERS, OPTIONS, WrapperContext, literal


def _eval(judge: WrapperContext, words: list[Word]) -> None:
    if words and words[0].text == "--":
        words = words[1:]
    judge.text(" ".join(literal("eval", word) for word in words) or ":", judge.shell)


def _source(judge: WrapperContext, words: list[Word]) -> None:
    if words and words[0].text == "--":
        words = words[1:]
    if words:
        judge.script("source", literal("source", words[0]))


def _trap(judge: WrapperContext, words: list[Word]) -> None:
    while words and words[0].text in ("--", "-p", "-l"):
        words = words[1:]
    if len(words) > 1 and literal("trap", words[0]) not in ("", "-"):
        judge.text(words[0].text or "", judge.shell)


def _hash(judge: WrapperContext, words: list[Word]) -> None:
    if any(word.text is None or (word.text.startswith("-") and "p" in word.text) for word in words):
        raise RefusedError("hash -p changes what a name means")
    if judge.shell == "zsh" and any("=" in word.prefix for word in words):
        raise RefusedError("hash with a = changes what a name means")


def _enable(judge: WrapperContext, words: list[Word]) -> None:
    if any(word.text is None or (word.text.startswith("-") and "f" in word.text) for word in words):
        raise RefusedError("enable -f loads code into the shell")


def _set(judge: WrapperContext, words: list[Word]) -> None:
    while words and words[0].text not in ("--", "-"):
        text = literal("set", words[0])
        words = words[1:]
        if not text.startswith(("-", "+")):
            return
        if not re.fullmatch(rf"[-+][{LETTERS}o]*", text):
            raise RefusedError(f"set {text} may change how the shell reads the line")
        for _ in range(text.count("o")):
            if words and literal("set", words[0]) not in OPTIONS:
                raise RefusedError(f"set {text} {words[0].text} may change how the shell reads the line")
            words = words[1:]


def _shopt(judge: WrapperContext, words: list[Word]) -> None:
    found = [literal("shopt", word) for word in words]
    setting = any(text.startswith("-") and "s" in text for text in found)
    other = [text for text in found if not text.startswith("-") and text not in OPTIONS]
    if setting and other:
        raise RefusedError(f"shopt {other[0]} may change how the shell reads the line")


def _jobs(judge: WrapperContext, words: list[Word]) -> None:
    for index, word in enumerate(words):
        text = literal("jobs", word)
        if not text.startswith("-"):
            return
        if "x" in text:
            judge.words(words[index + 1 :])
            return


def _kill(judge: WrapperContext, words: list[Word]) -> None:
    """Signals are for what the line started, or for one process that it names: not for all, nor for this server."""
    if words and words[0].text in ("-l", "-L", "--list", "--table"):
        return
    if len(words) > 1 and (words[0].text or "").startswith("-"):
        # A number with a dash is a signal here, and a group of processes behind it.
        words = words[2 if words[0].text in ("-s", "-n", "--signal") else 1 :]
    for word in words:
        number = re.fullmatch(r"\s*[-+]?([0-9]+)\s*", word.text or "")
        if number and (int(number[1]) in (0, 1) or int(number[1]) in judge.own):
            raise RefusedError(f"kill {excerpt(word.raw)} would end more than the line started")
        if re.search(r"\bPPID\b", word.raw):
            raise RefusedError(f"kill {excerpt(word.raw)} would end this server")
        if word.text is None and re.search(r"(?<!\$)\{[^{}]*(?:,|\.\.)[^{}]*\}", word.raw):
            raise RefusedError(f"kill has to be followed by processes, not {excerpt(word.raw)}")


BUILTINS: Mapping[str, Callable[[WrapperContext, list[Word]], None]] = {
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
    "hash": _hash,
    "enable": _enable,
    "set": _set,
    "shopt": _shopt,
    "jobs": _jobs,
    "kill": _kill,
}
