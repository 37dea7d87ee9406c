"""The grammar of POSIX shells and bash: finds every simple command of a text, wherever it hides.

Lists, pipelines, groups, subshells, if, for, while, until, case, functions, [[ ]], (( )), redirections and
here-documents. What it does not know (select, coproc, extended globs, alias tricks) is refused, not guessed.
"""

import re

from .lines import Lines
from .script import Command, RefusedError, Script, Word
from .words import IDENTIFIER, META

MAX_PARTS = 4096
"""Simple commands in one text; a guess that bounds the time of a check."""
END = ""
NOTHING = Word("", "")
OPENING = frozenset({"{", "if", "while", "until", "for", "case"})
CLOSING = frozenset({"}", "then", "do", "done", "fi", "else", "elif", "esac"})
CASE_ENDS = frozenset({";;", ";&", ";;&"})
DESCRIPTOR = re.compile(r"[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\}")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[A-Za-z0-9_$@*+-]+\])?\+?=")
DECLARING = frozenset({"declare", "typeset", "local", "export", "readonly"})
FUNCTION_NAME = re.compile(r"[A-Za-z0-9_.:+@%,-]+")
NUMERIC_TEST = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def parse(text: str, shell: str) -> Script:
    """Return the commands that a text runs in shell (bash, zsh, ksh, dash, sh). RefusedError when that is not certain."""
    script = Script()
    Grammar(text, shell, script).program()
    return script


class Grammar(Lines):
    """One text."""

    def __init__(self, text: str, shell: str, script: Script, depth: int = 0) -> None:
        """As Words."""
        super().__init__(text, shell, script, depth)
        if found := CONTROL.search(text):
            raise RefusedError(f"control character U+{ord(found[0]):04X}")
        self.pipes = 0
        self.last_command = -1
        self.last_background = -1

    def program(self) -> None:
        """Read the whole text."""
        self._list(frozenset({END}), empty=True)
        self.no_waiting()
        if self.depth == 0:
            self.script.background = self.last_background >= max(0, self.last_command)

    def nested(self, text: str) -> None:
        """Read the commands between two backticks."""
        Grammar(text, self.shell, self.script, self.depth + 1).program()

    def substitution(self) -> None:
        """Read commands up to the closing parenthesis."""
        start, outer = self.at, self.waiting
        self._no_continuation()
        self.waiting = []
        self.inside += 1
        self.deeper()
        self._list(frozenset({")"}), empty=True)
        self.depth -= 1
        self.no_waiting()
        self.inside -= 1
        self.waiting = outer
        self.at += 1
        self.one_line(start)

    # Lists and pipelines

    def _list(self, ends: frozenset[str], *, empty: bool = False) -> str:
        """Read commands up to one of ends, which is taken if it is a word. Returns it."""
        self.deeper()
        while True:
            self.gap(lines=True)
            end = self._list_end(ends)
            if end is None:
                end = self._and_or(ends)
            if end is not None:
                if not empty:
                    raise self.refuse("a command is missing")
                break
            empty = True
            end = self._list_end(ends)
            if end is not None:
                break
            c = self.next()
            if c == "&":
                self.pipes += 1
                self.last_background = self.at
                self.at += 1
            elif c == ";":
                self.at += 1
            elif c != "\n":
                # Behind a compound command a reserved word needs no separator: `{ { a; } }`.
                end = self._closing(self.word(), ends)
                break
        self.depth -= 1
        return end

    def _and_or(self, ends: frozenset[str]) -> str | None:
        """Read pipelines joined by && and ||, or the reserved word that ends the list instead."""
        while True:
            closing = self._pipeline(ends)
            if closing is not None:
                return closing
            self.gap()
            if self.next(2) not in ("&&", "||"):
                return None
            self.at += 2
            self.gap(lines=True)
            ends = frozenset()

    def _closing(self, word: Word, ends: frozenset[str]) -> str:
        if not word.plain or word.text is None or word.text not in ends & CLOSING:
            raise self.refuse("this does not parse")
        return word.text

    def _list_end(self, ends: frozenset[str]) -> str | None:
        if self.at >= len(self.text):
            if END in ends:
                return END
            raise self.refuse("the end is missing")
        for end in (";;&", ";;", ";&", ")"):
            if self.text.startswith(end, self.at):
                if end not in ends:
                    raise self.refuse("this does not parse")
                return end
        return None

    def _pipeline(self, ends: frozenset[str]) -> str | None:
        while True:
            closing = self._command(ends)
            if closing is not None:
                return closing
            ends = frozenset()
            self.gap()
            if self.next() != "|" or self.next(2) == "||":
                return None
            self.pipes += 1
            self.at += 1
            if self.next() == "&":
                if not self.extended:
                    raise self.refuse("|& in a shell that may not know it")
                self.at += 1
            self.gap(lines=True)

    # Commands

    def _command(self, ends: frozenset[str] = frozenset()) -> str | None:
        """Read one command, or the reserved word out of ends that stands in its place and is returned."""
        if self.next(2) == "((":
            if not self.extended:
                raise self.refuse("(( is read differently by different shells")
            self.at += 2
            self.arithmetic()
            self.redirections()
            return None
        if self.next() == "(":
            self.at += 1
            self._no_continuation()
            self._list(frozenset({")"}))
            self.at += 1
            self.redirections()
            return None
        word = self.word()
        if not word.plain or word.text is None:
            self._simple(word)
            return None
        if word.text in CLOSING:
            return self._closing(word, ends)
        if word.text in OPENING:
            self._compound(word.text)
            self.redirections()
            return None
        if word.text in ("!", "time"):
            self.deeper()
            closing = self._time(word) if word.text == "time" else self._negated()
            self.depth -= 1
            return closing
        if word.text == "[[" and self.extended:
            self._condition()
            self.redirections()
            return None
        if word.text in ("select", "coproc") or (word.text == "function" and not self.extended):
            raise RefusedError(f"{word.text} is not supported")
        name, behind = word, self.at
        self.gap()
        if word.text == "function":
            name = self.word()
            self.gap()
        if self.next() == "(" and FUNCTION_NAME.fullmatch(word.text):
            self.at += 1
            self.gap()
            if self.next() != ")":
                raise self.refuse("this does not parse")
            self.at += 1
        elif word.text != "function":
            self.at = behind
            self._simple(word)
            return None
        self._function(name)
        return None

    def _compound(self, opening: str) -> None:
        match opening:
            case "{":
                self._list(frozenset({"}"}))
            case "if":
                self._list(frozenset({"then"}))
                while (end := self._list(frozenset({"elif", "else", "fi"}))) != "fi":
                    if end == "else":
                        self._list(frozenset({"fi"}))
                        break
                    self._list(frozenset({"then"}))
            case "while" | "until":
                self._list(frozenset({"do"}))
                self._list(frozenset({"done"}))
            case "for":
                self._for()
            case _:
                self._case()

    def _for(self) -> None:
        self.gap()
        if self.next(2) == "((" and self.extended:
            self.at += 2
            self.arithmetic(also=";")
            self.gap()
            if self.next() == ";":
                self.at += 1
        else:
            name = self.word()
            if not name.plain or not IDENTIFIER.fullmatch(name.text or ""):
                raise self.refuse("a for loop without a name")
            self.script.assigned.append(name.raw)
            self.gap(lines=True)
            if re.compile(r"in(?=[ \t\n;\\])").match(self.text, self.at):
                self.at += 2
                self.gap()
                while (word := self.word()).raw:
                    self.script.latent |= word.latent
                    self.gap()
                if self.next() not in (";", "\n"):
                    raise self.refuse("this does not parse")
            if self.next() == ";":
                self.at += 1
        self.gap(lines=True)
        self._expect("do")
        self._list(frozenset({"done"}))

    def _case(self) -> None:
        self.gap()
        self.script.latent |= self.word().latent
        self.gap(lines=True)
        self._expect("in")
        while True:
            self.gap(lines=True)
            opened = self.next() == "("
            self.at += opened
            while True:
                self.gap()
                pattern = self.word()
                if pattern.raw == "esac" and not opened:
                    return
                self.gap()
                if not pattern.raw or self.next() not in ("|", ")"):
                    raise self.refuse("this does not parse")
                opened = True
                self.at += 1
                if self.text[self.at - 1] == ")":
                    break
            end = self._list(CASE_ENDS | {"esac"}, empty=True)
            if end == "esac":
                return
            if end != ";;" and not self.extended:
                raise self.refuse("this does not parse")
            self.at += len(end)

    def _negated(self) -> str | None:
        self.gap()
        return self._command()

    def _time(self, time: Word) -> str | None:
        self.script.commands.append(Command((time,)))
        while found := re.compile(r"[ \t]*(-p|--|-v)(?=[ \t])").match(self.text, self.at):
            self.at = found.end()
        self.gap()
        if self.next() == "-":
            raise self.refuse("time with this option")
        # `time` alone is a command.
        return self._command() if self.next() not in ("", "\n", ";", "&", "|", ")") else None

    def _condition(self) -> None:
        """Read a [[ ]] up to its closing word. Its operators cannot run anything, its words can."""
        latent = numeric = False
        while True:
            self.gap(lines=True, comments=False, documents=False)
            if self.next(2) in ("&&", "||"):
                self.at += 2
                continue
            c = self.next()
            if c in ("(", ")") or (c in ("<", ">") and self.next(2)[1:] != "("):
                self.at += 1
                continue
            if not c or c in ";&|#<>":
                raise self.refuse("this does not parse")
            word = self.word()
            latent |= word.latent
            numeric |= word.raw in NUMERIC_TEST
            if word.plain and word.text == "]]":
                break
            if word.plain and word.text == "=~":
                self._regular_expression()
        self.script.latent |= latent
        self.script.evaluates |= numeric
        self.last_command = self.at

    def _regular_expression(self) -> None:
        """Read the pattern of =~, in which parentheses and bars belong to the word as long as no blank does."""
        self.gap()
        depth = 0
        while True:
            word = self.word()
            if word.raw == "]]":
                raise self.refuse("this does not parse")
            c = self.next()
            if c == "(":
                depth += 1
            elif c == ")" and depth:
                depth -= 1
            elif c != "|" or not depth:
                break
            self.at += 1
        if depth or c not in (" ", "\t", "\n"):
            raise self.refuse("a pattern that shells read differently; put it in a variable")

    def _function(self, name: Word) -> None:
        if not name.plain or not FUNCTION_NAME.fullmatch(name.text or ""):
            raise self.refuse("a function with an unusual name")
        self.gap(lines=True)
        first, pipes = len(self.script.commands), self.pipes
        if self.next() == "(":
            self._command()
        else:
            word = self.word()
            if not word.plain or word.text not in OPENING:
                raise self.refuse("a function without a body")
            self._compound(word.text)
            self.redirections()
        called = (c.words[0].text for c in self.script.commands[first:] if c.words)
        if self.pipes > pipes and name.text in called:
            self.script.bombs.append(name.text or "")

    def _simple(self, word: Word) -> None:
        """Read the rest of a simple command whose first word is word, or empty where a redirection comes first."""
        words: list[Word] = []
        assigns: list[Word] = []
        latent = False
        redirected = False
        while True:
            if not word.raw:
                self.gap()
                while self.redirection():
                    redirected = True
                    self.gap()
                word = self.word()
            if not word.raw:
                break
            if self.next() in ("<", ">") and word.plain and DESCRIPTOR.fullmatch(word.text or ""):
                if word.prefix.startswith("{"):
                    raise self.refuse("a redirection that shells read differently")
                word = NOTHING
                continue
            assignment = ASSIGNMENT.match(word.raw)
            if assignment and assignment.end() == len(word.raw) and self.next() == "(":
                if words and words[0].text not in DECLARING:
                    raise self.refuse("this does not parse")
                latent |= self._array()
            if assignment and not words:
                self.script.assigned.append(assignment[1])
                self.script.evaluates |= assignment[2] is not None
                assigns.append(word)
            elif not words and "=" in word.prefix:
                raise self.refuse("an unusual assignment")
            else:
                words.append(word)
            word = NOTHING
        if not (words or assigns or redirected):
            raise self.refuse("this does not parse")
        latent |= any(word.latent for word in assigns)
        if len(self.script.commands) >= MAX_PARTS:
            raise RefusedError(f"it has more than {MAX_PARTS} parts")
        self.script.commands.append(Command(tuple(words), tuple(assigns), latent))
        self.last_command = self.at

    def _array(self) -> bool:
        if not self.extended:
            raise self.refuse("array in a shell without arrays")
        self.at += 1
        latent = False
        while True:
            self.gap(lines=True, documents=False)
            word = self.word()
            if not word.raw:
                break
            if self.shell == "ksh" and word.text in ("function", "{"):
                raise self.refuse("a type or a compound variable")
            latent |= word.latent
            # `a=([x]=1)`
            self.script.evaluates |= word.raw.startswith("[")
        if self.next() != ")":
            raise self.refuse("this does not parse")
        self.at += 1
        if self.next() not in META:
            # `a=(1)ls rm` assigns and runs rm.
            raise self.refuse("a word that goes on behind a list")
        return latent

    def _no_continuation(self) -> None:
        if self.next(2) == "\\\n":
            raise self.refuse("a parenthesis before a continued line, which could make it two")

    def _expect(self, text: str) -> None:
        word = self.word()
        if not word.plain or word.text != text:
            raise self.refuse(f"`{text}` is missing")
