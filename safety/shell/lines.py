"""Where lines of a shell command end: blanks, comments, redirections and here-documents."""

import re
from dataclasses import dataclass

from .script import Script, Word
from .words import Words

BLANKS = " \t"
REDIRECTION = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|>>|>&|>\||<|>")


@dataclass(frozen=True)
class Document:
    """A here-document that has been announced. quoted: nothing in its body is expanded. tabs: leading ones do not count."""

    delimiter: str
    quoted: bool
    tabs: bool


class Lines(Words):
    """Reads what stands between and behind words. Newlines are read here only: here-documents begin behind them."""

    def __init__(self, text: str, shell: str, script: Script, depth: int = 0) -> None:
        """As Words."""
        super().__init__(text, shell, script, depth)
        self.waiting: list[Document] = []
        self.inside = 0

    def word(self) -> Word:
        """Read one word, which must not span lines while a here-document waits for its own."""
        start = self.at
        found = super().word()
        self.one_line(start)
        return found

    def redirections(self) -> None:
        """Read what may follow a compound command."""
        while True:
            self.gap()
            if found := re.compile(r"[0-9]+(?=[<>])").match(self.text, self.at):
                self.at = found.end()
            if not self.redirection():
                return

    def redirection(self) -> bool:
        """Read one redirection without its number; False when there is none."""
        found = REDIRECTION.match(self.text, self.at)
        if found is None or (self.extended and self.next(2) in ("<(", ">(")):
            return False
        if not self.extended and found[0] in ("&>", "&>>", "<<<"):
            raise self.refuse(f"{found[0]} in a shell that may not know it")
        self.at = found.end()
        self.gap(comments=False)
        comment = self.next() == "#"
        target = self.word()
        if not target.raw or comment or (target.raw == "!" and self.shell == "zsh"):
            raise self.refuse("this does not parse")
        if found[0] in (">&", "<&") and (target.text is None or "$" in target.text or "`" in target.text):
            # bash expands this word twice.
            raise self.refuse("a redirection to what is not literal")
        if found[0] in ("<<", "<<-"):
            quoted = not target.plain
            if target.text is None or not re.fullmatch(r"[^\n]+", target.text) or "\\\n" in target.raw:
                raise self.refuse("a here-document with an unusual delimiter")
            if "$" in target.raw or "`" in target.raw:
                raise self.refuse("a here-document with an unusual delimiter")
            self.waiting.append(Document(target.text, quoted, found[0] == "<<-"))
        elif found[0] == "<<<":
            self.script.latent |= target.latent
        return True

    def _here_documents(self) -> None:
        """Read the bodies that begin behind the newline just taken."""
        for document in self.waiting:
            lines: list[str] = []
            logical, joined = "", False
            while True:
                if self.at >= len(self.text):
                    raise self.refuse("a here-document without its end")
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = min(end + 1, len(self.text))
                bare = line.lstrip("\t") if document.tabs else line
                logical = logical[:-1] + line if joined else bare
                # Where lines are joined by a backslash, shells differ in what they compare with the delimiter.
                if joined and (bare == document.delimiter or logical.endswith(document.delimiter)):
                    raise self.refuse("a here-document whose end is joined to a line")
                if bare == document.delimiter:
                    break
                if self.inside and bare.startswith(document.delimiter):
                    raise self.refuse("a here-document with a line that begins like its end")
                lines.append(line)
                joined = not document.quoted and (len(line) - len(line.rstrip("\\"))) % 2 == 1
            body = "".join(line + "\n" for line in lines)
            if document.quoted:
                self.script.latent |= "$(" in body or "`" in body
            else:
                self.here_text(body)
        self.waiting = []

    def gap(self, *, lines: bool = False, comments: bool = True, documents: bool = True) -> None:
        """Skip blanks, continued lines and comments; with lines newlines too, and the here-documents behind them."""
        while self.at < len(self.text):
            c = self.text[self.at]
            if c in BLANKS:
                self.at += 1
            elif self.next(2) == "\\\n":
                if self.waiting:
                    raise self.refuse("a continued line before a here-document")
                self.at += 2
            elif c == "#" and comments:
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif c == "\n" and lines:
                if self.waiting and not documents:
                    raise self.refuse("a here-document that shells read differently")
                self.at += 1
                self._here_documents()
            else:
                return

    def one_line(self, start: int) -> None:
        """Refuse a word, begun at start, that spans lines while a here-document waits for its own."""
        if self.waiting and "\n" in self.text[start : self.at]:
            raise self.refuse("a word that spans lines before a here-document")

    def no_waiting(self) -> None:
        """Refuse an end of the text before the end of a here-document."""
        if self.waiting:
            raise self.refuse("a here-document without its end")
