"""What a query of a document answers: read or given, parsed, followed, printed."""

import re
from functools import partial
from typing import Literal

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.text import decode, is_binary
from ...safety.writes.atomic import read_whole
from ...sandbox.isolate.worker import Worker, WorkerFailure
from ..blocking import run_read
from ..results import Text
from . import _query as paths
from . import _render as render

MAX_BYTES = 5 * 2**20
"""Size of a document (TOOLS.md §1.6)."""
SMALL = 2**18
"""Bytes of JSON up to which it is parsed in this process: the thread holds the interpreter for milliseconds."""
SMALL_SECONDS, SECONDS = 1.5, 10.0
"""Seconds that a document takes at most. A small one, or one that looks made to take long, is given up early."""
_DOTS = 64
_SURROGATE = re.compile("[\ud800-\udfff]")

ALIASED_VISITS = 200_000
"""Values that a query of YAML looks at: twice the nodes that an answer may have."""

Format = Literal["json", "yaml", "toml"]
_CODES = {"json": Code.BAD_JSON, "yaml": Code.BAD_YAML, "toml": Code.BAD_TOML}


async def answer(
    form: Format, parser: Worker, path: JailedPath | None, inline: str | None, query: str | None, option: int = 0
) -> Text:
    """Return the result of a query of a file or a text, of which one is given.

    option: for YAML which document, for JSON whether each line is one.
    """
    if path is None and inline is None:
        raise ToolError(Code.NO_INPUT, f"neither path nor {form} is given", f"path names a file, {form} is the text")
    if path is not None and inline is not None:
        raise ToolError(Code.INVALID_ARGS, f"path and {form} are both given", "leave one of them out")
    paths.parsed(query)
    text = await run_read(lambda _: _read(path)) if path is not None else _sendable(inline or "")
    # Bytes go to the worker as they are, where text would be written as JSON and parsed on the way.
    data = text.encode()
    if len(data) > MAX_BYTES:
        raise ToolError(Code.TOO_LARGE, f"the {form} is above 5 MiB")
    work = partial(answered, form, data, query, option)
    if form == "json" and len(text) <= SMALL:
        return Text(*await run_read(lambda _: work()))
    slow = len(text) <= SMALL or (form == "toml" and any(line.count(".") > _DOTS for line in text.split("\n")))
    try:
        body, more = await parser.call(answered, form, data, query, option, deadline=SMALL_SECONDS if slow else SECONDS)
    except WorkerFailure:
        raise ToolError(_CODES[form], f"the {form.upper()} takes too much time or memory to parse") from None
    return Text(body, more)


def _read(path: JailedPath) -> str:
    try:
        data, _ = read_whole(path, MAX_BYTES)
    except ToolError as refused:
        if refused.code is not Code.TOO_LARGE:
            raise
        raise ToolError(Code.TOO_LARGE, f"{path.shown} is above 5 MiB", "grep_files searches it") from None
    if is_binary(data):
        raise ToolError(Code.BINARY_FILE, f"{path.shown} is not a text file")
    return decode(data).lf


def _sendable(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text.removeprefix("\ufeff").replace("\r\n", "\n"))


def answered(form: Format, data: bytes, query: str | None, option: int) -> tuple[str, str]:
    """Return the text of an answer, and how to ask for a part of it. Also in the worker."""
    # Each parser is imported where it is wanted: the server never has the one of YAML.
    steps = paths.parsed(query)
    text = data.decode()
    if form == "json":
        from . import _json

        document = _json.parsed(text, lines=bool(option))
    elif form == "yaml":
        from . import _yaml

        document = _yaml.parsed(text, option)
    else:
        from . import _toml

        document = _toml.parsed(text)
    try:
        # `[]` behind `[]` over aliases multiplies what a query looks at, and the answer is bounded all the same.
        found = paths.evaluated(document, steps, query, ALIASED_VISITS if form == "yaml" else paths.MAX_VISITS)
    except paths.WrongKind as wrong:
        raise wrong.refusal(_position(form, text, option, wrong.place)) from None
    more = render.way_on(found.value)
    if form == "yaml":
        _bound(found.value, more)
    return render.rendered(found), more


def _position(form: Format, text: str, option: int, place: paths.Place) -> tuple[int, int] | None:
    """Return the position in a text of the value at a place; None for TOML, whose tables lie scattered."""
    if form == "json":
        from . import _json

        return _json.located(text, place, lines=bool(option))
    if form == "yaml":
        from . import _yaml

        return _yaml.located(text, option, place)
    return None


def _bound(value: object, more: str) -> None:
    from . import _yaml

    count = _yaml.count_nodes(value)
    if count > _yaml.MAX_NODES:
        raise ToolError(
            Code.OUTPUT_LIMIT, f"the answer has {_count(count)} nodes, above {_yaml.MAX_NODES}", more[:1000]
        )


def _count(number: int) -> str:
    return str(number) if number < 10**15 else "more than 10**15"
