"""What is known of a shell command line: its words, its commands, and the literal text in them."""

import re
from dataclasses import dataclass, field

MAX_DEPTH = 40
"""Levels of nesting, of which a substitution takes three. A guess: no line written by hand comes near it."""

EXTENDED = frozenset({"bash", "zsh", "ksh"})
"""Shells with $'...', arrays, [[, ((, process substitution. `sh` may be any shell and has none for certain."""

# Text that runs a command if some later part of the line evaluates it: `a='x[$(rm)]'; echo $((a))`.
LATENT = re.compile(r"\$[({]|`|\$$")


# An index with a substitution in it, which arithmetic runs wherever the text goes: `true 'a[$(rm)]'; ((_))`.
INDEXED = re.compile(r"\[[^\]]*(?:\$\(|`)", re.DOTALL)


class RefusedError(Exception):
    """The line must not run; the text says why."""


@dataclass(frozen=True)
class Word:
    """One word as written (raw) and what is known about its value.

    text: the value with quotes removed, or None where an expansion, glob or brace decides at run time.
    prefix: the literal text it begins with. single: it becomes exactly one word. plain: nothing in it is quoted,
    so that it can be a reserved word. latent: it holds literal text that runs a command when evaluated.
    split: the value of an expansion in it is cut into words.
    """

    raw: str
    text: str | None
    prefix: str = ""
    single: bool = True
    plain: bool = False
    latent: bool = False
    split: bool = False


@dataclass(frozen=True)
class Command:
    """A simple command: its words, and the names it assigns before them."""

    words: tuple[Word, ...]
    assigns: tuple[Word, ...] = ()
    latent: bool = False


@dataclass
class Script:
    """What a text runs.

    assigned: names that get a value. bombs: functions that call themselves beside a `|` or `&`. latent: it holds literal text
    that runs a command when evaluated. evaluates: something in it evaluates text. background: it ends in a `&`.
    """

    commands: list[Command] = field(default_factory=list)
    assigned: list[str] = field(default_factory=list)
    bombs: list[str] = field(default_factory=list)
    latent: bool = False
    evaluates: bool = False
    background: bool = False


class Value:
    """Collects what is known about the value of a word."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.known = True
        self.prefix: str | None = None
        self.single = True
        self.plain = True
        self.latent = False
        self.split = False
        self.shape: list[str] = []

    def bare(self, text: str) -> None:
        """Take text that stands there as it is."""
        self.parts.append(text)
        self.shape.append(text)

    def quoted(self, text: str) -> None:
        """Take text that a quote or backslash protects."""
        self.parts.append(text)
        self.plain = False
        self.shape.append("a")

    def unknown(self, *, single: bool) -> None:
        """Take a place that is filled at run time; single: by exactly one word or a part of one."""
        if self.prefix is None:
            self.prefix = "".join(self.parts)
        self.latent |= bool(self.parts) and self.parts[-1].endswith("$")
        self.known = self.plain = False
        self.single &= single
        self.split |= not single
        self.shape.append("a")

    def word(self, raw: str) -> Word:
        """Return the collected text as a raw word."""
        text, shape = "".join(self.parts), "".join(self.shape)
        glob = any(c in shape for c in "*?") or ("[" in shape and text not in ("[", "[["))
        brace = "{" in shape and ("," in shape or ".." in shape)
        tilde = shape.startswith("~") and "/" not in text
        known = self.known and not glob and not brace and not tilde
        if INDEXED.search(text):
            raise RefusedError(
                f"{excerpt(raw or text)} holds an index with a command in it, which arithmetic would run"
            )
        # A value with an expansion is not literal, but the literal part of it can still be data that runs.
        return Word(
            raw,
            text if known else None,
            text if self.prefix is None else self.prefix,
            single=self.single and not glob and not brace,
            plain=self.plain and known,
            latent=self.latent or bool(LATENT.search(text)),
            split=self.split,
        )


def excerpt(text: str) -> str:
    """Return a short quotation for a message."""
    shown = "".join(c if c.isprintable() else " " for c in text).strip()
    return f"`{shown[:60]}`"


def names(text: str) -> frozenset[str]:
    """Return the words of text as a set."""
    return frozenset(text.split())
