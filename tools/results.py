"""What a handler may return: text, a record, or ready content blocks."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

from mcp_types import ContentBlock, TextContent
from pydantic import BaseModel, ConfigDict

from ..safety.errors import Code, ToolError

MAX_JSON = 2**20
"""Characters of a text that is looked at for being JSON; none so long leaves the server uncut."""

UNCUT = 256 * 2**10
"""Characters of an answer in the form of another library that are sent uncut (TOOLS.md §9)."""

SEARCH_STEPS = 64
"""The part of a budget that fields may leave unused, where they are longer than the text."""

MoreHint = str | Callable[[str], str | None] | None
"""How to get what a cut leaves out: words such as `narrow the path`, or a function from the kept head to such words."""


class Fitted(Protocol):
    """A text within the budget; truncated is None or {"tokens": total, "cut": tokens left out}."""

    @property
    def text(self) -> str:
        """Return the text that may be sent."""
        ...

    @property
    def tokens(self) -> int | None:
        """Return the tokens of the text, or None where they were not counted."""
        ...

    @property
    def truncated(self) -> dict[str, int] | None:
        """Return the marker of the cut, or None."""
        ...


def truncation(*texts: Fitted) -> dict[str, Any]:
    """Return the _meta that says what of several texts was cut, taken together; nothing where none was."""
    cuts = [text.truncated for text in texts if text.truncated]
    return {"truncated": {key: sum(cut[key] for cut in cuts) for key in ("tokens", "cut")}} if cuts else {}


class Budget(Protocol):
    """The token budget, as results see it."""

    @property
    def limit(self) -> int:
        """Return the most tokens of an answer."""
        ...

    @property
    def structured(self) -> bool:
        """Return True where the fields of a record are sent, too, and have to fit as well."""
        ...

    def count(self, text: str) -> int:
        """Return the tokens of a text; an estimate where it cannot fit."""
        ...

    def of(self, limit: int) -> "Budget":
        """Return the same budget with another limit."""
        ...

    @property
    def keep(self) -> Callable[[str], str] | None:
        """Return what keeps a text for process_output and returns its id; None where nothing can be read on."""
        ...

    def fit(self, text: str, how: MoreHint = None) -> Fitted:
        """Cut text to the budget."""
        ...

    def fit_streams(self, stdout: str, stderr: str, *how: MoreHint) -> tuple[Fitted, Fitted]:
        """Cut the two streams of a program to the budget they share. how: a hint for each of the two."""
        ...

    def head(self, text: str, how: MoreHint = None) -> Fitted:
        """Cut text to whole lines from its start, with a last line that says what is missing."""
        ...

    def start(self, text: str, room: int) -> str:
        """Return the longest start of a text that leaves room for so many tokens."""
        ...

    def end(self, text: str, room: int) -> str:
        """Return the longest end of a text that leaves room for so many tokens."""
        ...

    def part(self, parts: int) -> "Budget":
        """Return the budget of each of several things that share this one."""
        ...


@dataclass(frozen=True)
class Answer:
    """A result as it goes on the wire: content blocks, structured content, _meta.

    verbatim: nothing is added to its text or taken from its fields.
    """

    content: Sequence[ContentBlock]
    structured: dict[str, Any] | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    tokens: int | None = None
    verbatim: bool = False

    @property
    def text(self) -> str:
        """Return the text of the blocks that have one."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))


def at_most(text: str) -> int:
    """Return an upper bound of the bytes of a text, without encoding it."""
    return len(text) if text.isascii() else 4 * len(text)


def announced(text: str) -> str:
    """Return a text with a first line that says what follows where all of it is JSON but no object.

    A client that reads JSON where it can refuses a number or a list in the place of a result.
    """
    value = bare_json(text)
    if value is None:
        return text
    return f"{len(value)} items\n{text}" if isinstance(value, list) else f"1 value\n{text}"


def bare_json(text: str) -> Any:
    """Return the JSON value of a text, where that is neither an object nor null; else None."""
    # The first character rules out nearly every text, and what is longer is cut.
    if text.lstrip()[:1] not in tuple('[-0123456789"tf') or len(text) > MAX_JSON:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


class Result(Protocol):
    """Anything that knows how to become an answer within a budget."""

    @property
    def size(self) -> int:
        """Return an upper bound of the bytes that the budget applies to."""
        ...

    def fit(self, budget: Budget) -> Answer:
        """Return the answer, cut to the budget where it has to be."""
        ...


@dataclass(frozen=True)
class Text:
    """Plain text, cut to the budget; more says how to get the rest."""

    body: str
    more: MoreHint = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Return an upper bound of the bytes of the text."""
        return at_most(self.body)

    def fit(self, budget: Budget) -> Answer:
        """Return one text block."""
        cut = budget.head(announced(self.body), self.more)
        meta = dict(self.meta) | ({"truncated": cut.truncated} if cut.truncated else {})
        return Answer([TextContent(type="text", text=cut.text)], meta=meta, tokens=cut.tokens)


@dataclass(frozen=True)
class Blocks:
    """Ready content blocks, such as images; they pass uncut."""

    content: Sequence[ContentBlock]
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Return 0: nothing is cut."""
        return 0

    def fit(self, budget: Budget) -> Answer:
        """Return the blocks as they are."""
        return Answer(self.content, meta=self.meta)


@dataclass(frozen=True)
class Verbatim:
    """An answer in the form of another library: a text, or JSON and beside it the same as structured content.

    It is not cut; JSON above UNCUT characters is output_limit.
    """

    value: str | Mapping[str, Any] | Sequence[Any]

    @property
    def size(self) -> int:
        """Return 0: nothing is cut."""
        return 0

    def fit(self, budget: Budget) -> Answer:
        """Return one text block. ToolError output_limit."""
        if isinstance(self.value, str):
            return Answer([TextContent(type="text", text=self.value)], verbatim=True)
        text = json.dumps(self.value, ensure_ascii=False)
        if len(text) > UNCUT:
            raise ToolError(Code.OUTPUT_LIMIT, f"the answer is above {UNCUT >> 10} KiB", "narrow the request")
        fields = dict(self.value) if isinstance(self.value, Mapping) else None
        return Answer([TextContent(type="text", text=text)], fields, verbatim=True)


class Record(BaseModel):
    """Typed fields, sent as structured content beside a readable rendering of them.

    A subclass declares the fields and gives the rendering; its schema becomes the tool's outputSchema.
    """

    model_config = ConfigDict(frozen=True)
    more: ClassVar[str | None] = None
    holds_images: ClassVar[bool] = False
    """Whether images may stand beside the text: then no fields are sent, and so no outputSchema is announced."""
    largest: ClassVar[int] = 2**20
    """Characters of JSON that the fields may have; above, the answer is output_limit."""

    def rendered(self) -> str:
        """Return the fields as a person would read them."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Return an upper bound of the bytes of the rendering."""
        return at_most(self.rendered())

    def within(self, budget: Budget) -> tuple[Self, dict[str, Any]]:
        """Return the record with its long fields cut to the budget, and the _meta that says so."""
        return self, {}

    def fit(self, budget: Budget) -> Answer:
        """Return the rendering as text, and as structured content the fields that are neither null nor false."""
        fitted, meta = self._with_fields_within(budget) if budget.structured else self.within(budget)
        cut = budget.fit(fitted.rendered(), self.more)
        if cut.truncated:
            meta = meta | {"truncated": cut.truncated}
        return Answer([TextContent(type="text", text=cut.text)], fitted.fields(), meta, cut.tokens)

    def derived(self) -> Collection[str]:
        """Return the fields that say no more than the others."""
        return ()

    def fields(self) -> dict[str, Any]:
        """Return the fields that are neither null nor false nor follow from others."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_needless(self))

    def _with_fields_within(self, budget: Budget) -> tuple[Self, dict[str, Any]]:
        """Return the record cut so that its fields fit, which as JSON may be longer than the rendering.

        Where the fields that are never cut are too many already, the others are cut for the rendering alone.
        """

        def fits(record: Self) -> bool:
            return budget.count(json.dumps(record.fields(), ensure_ascii=False, separators=(",", ":"))) <= budget.limit

        widest = self.within(budget)
        if fits(widest[0]):
            return widest
        best = self.within(budget.of(1))
        if not fits(best[0]):
            return widest
        low, high = 1, budget.limit
        while high - low > 1 + budget.limit // SEARCH_STEPS:
            middle = (low + high) // 2
            tried = self.within(budget.of(middle))
            if fits(tried[0]):
                best, low = tried, middle
            else:
                high = middle
        return best


def _needless(value: object) -> dict[Any, Any] | None:
    """Return the false and derived fields, of a model and of those within it, in the form that model_dump leaves out."""
    if isinstance(value, BaseModel):
        pairs: Iterable[tuple[Any, Any]] = value
    elif isinstance(value, (list, tuple)):
        pairs = enumerate(value)
    else:
        return None
    is_model = isinstance(value, BaseModel)
    derived = value.derived() if isinstance(value, Record) else ()
    found = {key: True if is_model and (item is False or key in derived) else _needless(item) for key, item in pairs}
    return {key: what for key, what in found.items() if what} or None
