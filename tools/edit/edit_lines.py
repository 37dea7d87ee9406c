"""edit_lines."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.paths import WritePath
from ..base import Access, tool
from ..blocking import run_write
from ..results import Budget, Record
from ..services import Journal, Parser, Seen
from ._lines import Block, Document, LineEdit, split
from ._load import LoadedFile, edit
from ._missing import no_match
from ._replace import NoMatch, named

LINES_NAMED = 20

Operation = Literal["insert", "replace", "delete"]


class LinesRecord(Record):
    """What became of the lines; at_lines are 1-based."""

    path: str
    operation: Operation
    count: int
    at_lines: list[int]
    lines_added: int
    lines_removed: int
    etag: str

    def rendered(self) -> str:
        """Return one line that says what was done where."""
        return f"{self.operation} {self.path}: {self.count} at line(s) {named(self.at_lines, LINES_NAMED)}"

    def within(self, budget: Budget) -> tuple["LinesRecord", dict[str, Any]]:
        """Return the record itself, with its etag as _meta has it after every write."""
        return self, {"etag": self.etag}


@dataclass(frozen=True)
class _Asked:
    """The arguments that say what to do, checked against each other; lines are split."""

    operation: Operation
    lines: list[str]
    block: Block
    position: Literal["start", "end", "before", "after"]
    expected: int

    def made(self, document: Document) -> LineEdit:
        if self.operation != "insert":
            return document.replace(self.block, self.lines, self.expected)
        if self.position in ("start", "end"):
            return document.insert(0 if self.position == "start" else document.count, self.lines)
        return document.insert_beside(self.block, self.lines, after=self.position == "after")


@tool(Access.WRITE)
async def edit_lines(
    parser: Parser,
    seen: Seen,
    journal: Journal,
    path: WritePath,
    operation: Operation,
    lines: list[str] | None = None,
    match_lines: Annotated[list[str] | None, Field(description="the block of lines to find, compared trimmed")] = None,
    before_lines: Annotated[list[str] | None, Field(description="lines right before the block")] = None,
    after_lines: list[str] | None = None,
    position: Annotated[
        Literal["start", "end", "before", "after"], Field(description="for insert; before/after match_lines")
    ] = "end",
    expected_count: Annotated[int, Field(ge=1)] = 1,
    expected_etag: str | None = None,
) -> LinesRecord:
    """Insert, replace or delete whole lines of a file.

    Indentation does not matter for finding lines; what is written is exactly as given.
    """
    asked = _asked(operation, lines, match_lines, before_lines, after_lines, position, expected_count)
    done: list[LineEdit] = []

    def change(file: LoadedFile) -> tuple[str, str]:
        done.append(asked.made(Document(file.text.text, file.text.line_end)))
        return done[0].text, "".join(asked.lines)

    try:
        edited = await run_write(lambda _: edit(path, expected_etag, journal, change))
    except NoMatch as missed:
        raise await no_match(path, missed, parser, "match_lines") from None
    seen.changed(edited.key, edited.before, edited.written.etag)
    return LinesRecord(
        path=path.shown,
        operation=operation,
        count=done[0].count,
        at_lines=done[0].at,
        lines_added=done[0].added,
        lines_removed=done[0].removed,
        etag=edited.written.etag,
    )


def _asked(
    operation: Operation,
    lines: list[str] | None,
    match_lines: list[str] | None,
    before_lines: list[str] | None,
    after_lines: list[str] | None,
    position: Literal["start", "end", "before", "after"],
    expected: int,
) -> _Asked:
    inserting = operation == "insert"
    beside = inserting and position in ("before", "after")
    if operation == "delete" and lines:
        raise _invalid("lines", "not with operation=delete")
    if operation != "delete" and not lines:
        raise _invalid("lines", f"operation={operation} needs at least one line")
    if match_lines is None and (beside or not inserting):
        raise _invalid(
            "match_lines", f"required with {f'position={position}' if inserting else f'operation={operation}'}"
        )
    if inserting and not beside and match_lines:
        raise _invalid("match_lines", "needs position=before or position=after")
    if inserting and (before_lines or after_lines or expected != 1):
        raise _invalid("before_lines, after_lines, expected_count", "not with operation=insert")
    if not inserting and position != "end":
        raise _invalid("position", "only with operation=insert")
    block = Block(split(match_lines or ()), split(before_lines or ()), split(after_lines or ()))
    return _Asked(operation, split(lines or ()), block, position, expected)


def _invalid(name: str, why: str) -> ToolError:
    return ToolError(Code.INVALID_ARGS, f"{name}: {why}")
