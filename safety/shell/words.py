"""Words of a shell command line: quotes, escapes, expansions and the commands hidden in them.

Written for one purpose: to tell which commands a line runs, and to refuse every line whose meaning is not certain
in the shell that will run it. That is stricter than a grammar for editors, which must make sense of any input:
where bash, dash, ksh and zsh read the same characters differently, the line is refused.
"""

import re
import unicodedata

from .script import EXTENDED, MAX_DEPTH, RefusedError, Script, Value, Word, excerpt

META = " \t\n;&|()<>"
SPECIAL = "@*#?$!-"
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# In arithmetic: no quotes, backslashes, braces or backticks, which the shells read differently there.
ARITHMETIC = re.compile(r"[A-Za-z0-9_ \t\n+*/%<>=!~&|^?:,#@.\[\]-]+")
NAMES_IN_ARITHMETIC = re.compile(r"(?<![0-9A-Za-z_#])[A-Za-z_]")
ANSI_C = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
BARE_RUN = re.compile(r"[A-Za-z0-9_./:@%+=^-]+")
DOUBLE_RUN = re.compile(r'[^"\\`$]+')
OPERAND_RUN = re.compile(r"[A-Za-z0-9_./:@%+=*?, -]+")
SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Words:
    """Reads words from a text. Subclassed by the grammar, which knows where commands begin."""

    def __init__(self, text: str, shell: str, script: Script, depth: int = 0) -> None:
        """Shell is one of bash, zsh, ksh, dash, sh; what is found goes into script."""
        self.text = text
        self.shell = shell
        self.extended = shell in EXTENDED
        self.script = script
        self.depth = depth
        self.at = 0

    def substitution(self) -> None:
        """Read commands up to the closing parenthesis; self.at is behind the opening one."""
        raise NotImplementedError

    def nested(self, text: str) -> None:
        """Read a text of its own, such as that between backticks."""
        raise NotImplementedError

    def refuse(self, reason: str) -> RefusedError:
        """Return the error for what stands here."""
        return RefusedError(f"{reason} near {excerpt(self.text[max(0, self.at - 10) : self.at + 20])}")

    def deeper(self) -> None:
        """Count one more level of nesting; whoever calls it takes one off self.depth behind the level."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise RefusedError("nested too deeply")

    def next(self, count: int = 1) -> str:
        """Return the next characters without taking them."""
        return self.text[self.at : self.at + count]

    def word(self) -> Word:
        """Read one word; empty raw means that there is none here."""
        start = self.at
        value = Value()
        while self.at < len(self.text):
            c = self.text[self.at]
            if c in "<>" and self.next(2)[1:] == "(" and self.extended:
                self.at += 2
                self.substitution()
                value.unknown(single=True)
            elif c in META:
                break
            elif c == "\\":
                self._escape(value)
            elif c == "'":
                self._single(value)
            elif c == '"':
                self._double(value)
            elif c == "`":
                self._backticks(quoted=False)
                value.unknown(single=False)
            elif c == "$":
                self._dollar(value, quoted=False)
            elif run := BARE_RUN.match(self.text, self.at):
                value.bare(run[0])
                self.at = run.end()
            else:
                if c > "~" and unicodedata.category(c)[0] in "ZC":
                    raise self.refuse("an invisible or unusual blank character")
                value.bare(c)
                self.at += 1
        return value.word(self.text[start : self.at])

    def _escape(self, value: "Value") -> None:
        following = self.next(2)[1:]
        if not following:
            raise self.refuse("backslash at the end")
        if following != "\n":
            value.quoted(following)
        self.at += 2

    def _single(self, value: "Value") -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise self.refuse("unclosed quote")
        value.quoted(self.text[self.at + 1 : end])
        self.at = end + 1

    def _double(self, value: "Value") -> None:
        self.at += 1
        value.quoted("")
        while True:
            c = self.next()
            if not c:
                raise self.refuse("unclosed quote")
            if c == '"':
                self.at += 1
                return
            if c == "\\":
                following = self.next(2)[1:]
                if following == "\n":
                    pass
                elif following in ("$", "`", '"', "\\"):
                    value.quoted(following)
                else:
                    value.quoted("\\" + following)
                self.at += 2
            elif c == "`":
                self._backticks(quoted=True)
                value.unknown(single=True)
            elif c == "$":
                self._dollar(value, quoted=True)
            else:
                self._run(DOUBLE_RUN, value)

    def _run(self, pattern: re.Pattern[str], value: "Value") -> None:
        run = pattern.match(self.text, self.at)
        value.quoted(run[0] if run else self.text[self.at])
        self.at = run.end() if run else self.at + 1

    def _backticks(self, *, quoted: bool, here: bool = False) -> None:
        inner: list[str] = []
        self.at += 1
        while True:
            c = self.next()
            if not c:
                raise self.refuse("unclosed backtick")
            self.at += 1
            if c == "`":
                break
            if here and c == "\\" and self.next() == '"':
                raise self.refuse('\\" between backticks in a here-document')
            if c == "\\" and self.next() and self.next() in ('$`\\"' if quoted else "$`\\"):
                c = self.next()
                self.at += 1
            inner.append(c)
        self.nested("".join(inner))

    def _dollar(self, value: "Value", *, quoted: bool) -> None:
        self.deeper()
        self._expansion(value, quoted=quoted)
        self.depth -= 1

    def _expansion(self, value: "Value", *, quoted: bool) -> None:
        following = self.next(2)[1:]
        if self.next(3) == "$((":
            self.at += 3
            self.arithmetic()
            value.unknown(single=quoted)
        elif following == "(":
            self.at += 2
            self.substitution()
            value.unknown(single=quoted)
        elif following == "{":
            self.at += 2
            value.unknown(single=self._braces(quoted=quoted) and quoted)
        elif following == "'" and not quoted:
            self._ansi_c(value)
        elif following == '"' and not quoted:
            self.at += 1
            value.unknown(single=True)
            self._double(value)
        elif following == "[" or self.next(3) == "$\\\n":
            raise self.refuse("$[ and a broken $ are read differently by different shells")
        elif following and (following in SPECIAL or following == "_" or (following.isascii() and following.isalnum())):
            name = IDENTIFIER.match(self.text, self.at + 1)
            self.at = name.end() if name else self.at + 2
            # zsh has an index without braces, too.
            self.script.evaluates |= self.shell == "zsh" and self.next() == "["
            value.unknown(single=quoted and following != "@")
        elif self.shell == "zsh" or not (quoted or not following or following in META):
            raise self.refuse("a $ that stands for nothing")
        else:
            value.quoted("$") if quoted else value.bare("$")
            self.at += 1

    def _ansi_c(self, value: "Value") -> None:
        body = re.compile(r"((?:[^\\']|\\.)*)'", re.DOTALL).match(self.text, self.at + 2)
        if body is None:
            raise self.refuse("unclosed quote")
        self.at = body.end()
        if self.extended and self.shell != "bash" and re.search(r"\\[^abefnrtv\\'\"?E]", body[1]):
            raise self.refuse("an escape in $'...' that shells read differently")
        if self.extended:
            value.quoted(ANSI_C.sub(_ansi_c_escape, body[1]))
        elif "\\" in body[1]:
            raise self.refuse("$'...' with a backslash is read differently by different shells")
        else:
            value.unknown(single=True)

    def _braces(self, *, quoted: bool) -> bool:
        """Read a parameter expansion behind its `${`. False when it can become several words even in quotes."""
        indirect = self.next() == "!" and self.next(2)[1:] not in ("}", "")
        length = self.next() == "#" and self.next(2)[1:] not in ("}", "")
        if indirect or length:
            self.at += 1
        name = IDENTIFIER.match(self.text, self.at) or re.compile(r"[0-9]+|[@*#?$!-]").match(self.text, self.at)
        if name is None:
            raise self.refuse("unknown kind of ${}")
        self.at = name.end()
        single = name[0] != "@"
        if indirect:
            self.script.evaluates = True
            single = False
        if self.next() == "[":
            if not self.extended:
                raise self.refuse("array in a shell without arrays")
            self.at += 1
            if self.next(2) in ("@]", "*]"):
                single = False
                self.at += 2
            else:
                self.arithmetic(close="]")
        return self._operator(name[0], quoted=quoted) and single

    def _operator(self, name: str, *, quoted: bool) -> bool:
        found = re.compile(r"\}|:?[-=?+]|##?|%%?|/[/#%]?|\^\^?|,,?|@[A-Za-z]\}|[@*]\}|:").match(self.text, self.at)
        if found is None:
            raise self.refuse("unknown kind of ${}")
        self.at = found.end()
        if found[0].endswith("}"):
            if found[0] == "@P}":
                raise self.refuse("${...@P} runs what the value holds,")
            return len(found[0]) != 2
        if found[0].endswith("="):
            self.script.assigned.append(name)
        if found[0] == ":":
            self.arithmetic(close="}")
        else:
            self._operand(quoted=quoted)
        return True

    def _operand(self, *, quoted: bool) -> None:
        value = Value()
        while True:
            c = self.next()
            if not c or c == "{" or (quoted and c in "'\"") or (c == "(" and self.shell == "zsh"):
                raise self.refuse("${} that shells read differently")
            if c == "}":
                self.at += 1
                break
            if c in "<>" and self.next(2)[1:] == "(":
                if not self.extended:
                    raise self.refuse("process substitution in a shell that may not know it")
                self.at += 2
                self.substitution()
            elif c == "\\":
                self._escape(value)
            elif c == "'":
                self._single(value)
            elif c == '"':
                self._double(value)
            elif c == "`":
                self._backticks(quoted=quoted)
            elif c == "$":
                self._dollar(value, quoted=quoted)
            else:
                self._run(OPERAND_RUN, value)
        self.script.latent |= value.word("").latent

    def arithmetic(self, close: str = "))", also: str = "") -> None:
        """Read an arithmetic expression up to close. also: further characters that are allowed (`;` in for)."""
        depth = 0
        while True:
            c = self.next()
            if depth == 0 and self.text.startswith(close, self.at):
                self.at += len(close)
                return
            if plain := ARITHMETIC.match(self.text, self.at):
                end = plain.end() if close[0] not in plain[0] else plain.start() + plain[0].index(close[0])
                if end == self.at:
                    raise self.refuse("arithmetic that shells read differently")
                self.script.evaluates |= bool(NAMES_IN_ARITHMETIC.search(self.text, self.at, end))
                self.at = end
            elif c and c in also:
                self.at += 1
            elif c == "(":
                depth += 1
                self.at += 1
            elif c == ")" and depth:
                depth -= 1
                self.at += 1
            elif c == "$":
                self.script.evaluates = True
                self._dollar(Value(), quoted=True)
            else:
                raise self.refuse("arithmetic that shells read differently")

    def here_text(self, body: str) -> None:
        """Read the body of a here-document whose delimiter is not quoted."""
        inner = type(self)(body, self.shell, self.script, self.depth + 1)
        value = Value()
        while inner.at < len(body):
            c = body[inner.at]
            if c == "\\":
                inner._escape(value)
            elif c == "`":
                inner._backticks(quoted=False, here=True)
            elif c == "$":
                inner._dollar(value, quoted=True)
            else:
                inner._run(DOUBLE_RUN, value)
        self.script.latent |= value.word("").latent


def _ansi_c_escape(found: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if found[group] is not None:
            code = int(found[group], base) & (0xFF if base == 8 else 0x1FFFFF)
            if not 0 < code < 0x110000:
                raise RefusedError("a NUL or impossible character in $'...'")
            return chr(code)
    if found[5] is not None:
        return chr(ord(found[5]) & 0x1F)
    return SIMPLE_ESCAPES.get(found[6], found[6] if found[6] in "\\'\"?" else "\\" + found[6])
