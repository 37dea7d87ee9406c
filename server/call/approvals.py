"""Questions to the person at the client: may the agent do this?"""

import difflib
import hashlib
import json
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
import mcp_types as t
from anyio import to_thread
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ...safety.redaction import sensitive
from ...safety.text import visible, visible_name

ANSWER_TIMEOUT = 120.0
"""Seconds that the person has for an answer (TOOLS.md §1.8)."""

ARGUMENTS_SHOWN = 4000
"""Characters of the short arguments that a question shows."""

LONG = 200
"""Characters above which an argument is shown by itself, behind the others; a guess."""

TEXT_SHOWN, LEAST_SHOWN = 4000, 400
"""Characters of the long arguments that a question shows, and those of each when the others have used them up."""

_OLD_AND_NEW = ("old_string", "new_string")
"""The arguments of an edit, which is shown as a diff."""

_SECRET = re.compile(r"(?:(?:Bearer|Basic|Token) )?[\w.~+/=:@%,-]{1,4096}", re.ASCII | re.IGNORECASE)
"""What a value under the name of a secret may be to be masked: nothing that a shell or an interpreter would run."""

PIECE = 1 << 20
"""Characters of a text that are taken at a time for its digest: some tenths of a millisecond."""

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Approve?"}},
    "required": ["approve"],
}


class NeedsInput(Exception):
    """The client has to come back with the person's answer (2026-07-28: the server cannot call it)."""

    def __init__(self, result: t.InputRequiredResult) -> None:
        super().__init__("input required")
        self.result = result


class Ask(Protocol):
    """Puts a question to the person. about names what is asked for, such as `approval` or `unsafe`."""

    async def __call__(self, about: str, question: str, digest: str) -> bool | None:
        """Return the answer; no is also a refusal, and silence; None a client that cannot ask. May raise NeedsInput."""
        ...


async def no_prompt(about: str, question: str, digest: str) -> None:
    """Answer for callers without a person behind them."""


async def digest(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the digest that binds an answer to one exact call. Other calls go on meanwhile, however long the arguments are."""
    return await to_thread.run_sync(_digest, tool, arguments)


def _digest(tool: str, arguments: Mapping[str, Any]) -> str:
    found = hashlib.sha256()
    rest: list[Any] = [arguments, tool]
    # Each value begins with what it is and how long it is, so that no two calls are written alike. JSON would do as well,
    # but keeps the interpreter to itself for as long as it writes one text.
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            found.update(b'"%d:' % len(value))
            for at in range(0, len(value), PIECE):
                found.update(value[at : at + PIECE].encode("utf-8", "surrogatepass"))
        elif isinstance(value, Mapping):
            found.update(b"{%d:" % len(value))
            for name in sorted(value):
                rest += [value[name], name]
        elif isinstance(value, list | tuple):
            found.update(b"[%d:" % len(value))
            rest += reversed(value)
        else:
            found.update(json.dumps(value).encode() + b";")
    return found.hexdigest()


def question(tool: str, arguments: Mapping[str, Any], why: str) -> str:
    """Return the question: short arguments as JSON, then each long one as it is, and edits as a diff.

    Nothing is left out by its look, since the agent chooses how its arguments look: a value is masked only under the
    name of a secret. What does not fit is cut, and its length and digest are told.
    """
    short: dict[str, Any] = {}
    long: list[str] = []
    left = TEXT_SHOWN
    for name in sorted(arguments, key=lambda name: (_is_long(arguments[name]), name)):
        value = masked(name, arguments[name])
        if name in _OLD_AND_NEW and set(_OLD_AND_NEW) <= arguments.keys():
            continue
        if not _is_long(value):
            short[name] = value
            continue
        block, taken = _block(name, value, left)
        left -= taken
        long.append(block)
    if all(isinstance(arguments.get(name), str) for name in _OLD_AND_NEW):
        block, _ = _block("edit", _diff(*(arguments[name] for name in _OLD_AND_NEW)), left)
        long.append(block)
    shown = visible(json.dumps(short, ensure_ascii=False))
    if len(shown) > ARGUMENTS_SHOWN:
        shown = _cut(shown, ARGUMENTS_SHOWN)
    return "\n".join([f"{why} {tool} with {shown}", *long])


def masked(name: str, value: Any) -> Any:
    """Return an argument with the values under names of secrets masked, unless such a value could be more than a secret."""
    if isinstance(value, Mapping):
        return {inner: masked(inner, value[inner]) for inner in value}
    if isinstance(value, list | tuple):
        return [masked("", inner) for inner in value]
    if isinstance(value, str) and sensitive(name) and _SECRET.fullmatch(value):
        return f"[redacted, {len(value)} characters]"
    return value


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value)) if isinstance(value, Mapping | list) else 0


def _is_long(value: Any) -> bool:
    return _length(value) > LONG or (isinstance(value, str) and "\n" in value) or _are_edits(value)


def _block(name: str, value: Any, room: int) -> tuple[str, int]:
    """Return a long argument below its name, and how many characters of it are shown. Each line has a mark of its own."""
    if _are_edits(value):
        text = "\n".join(_diff(*(each[key] for key in _OLD_AND_NEW)) for each in value)
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    about = f"{visible_name(name)} ({len(text)} characters, {text.count(chr(10)) + 1} lines, sha256 {digest}):"
    shown = text if len(text) <= room else _cut(text, max(room, LEAST_SHOWN))
    lines = [f"| {visible(line).replace(chr(13), '<U+000D>')}" for line in shown.split("\n")]
    return "\n".join([about, *lines]), len(shown)


def _cut(text: str, room: int) -> str:
    """Keep the start and the end of a text, and say how much is missing between them."""
    end = room // 4
    head, tail = text[: room - end], text[-end:]
    return f"{head}\n[... {len(text) - len(head) - len(tail)} characters are not shown ...]\n{tail}"


def _are_edits(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_edit(each) for each in value)


def _is_edit(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(value.get(key), str) for key in _OLD_AND_NEW)


def _diff(old: str, new: str) -> str:
    if max(len(old), len(new)) > TEXT_SHOWN:
        # Comparing takes time in proportion to the product of the lengths.
        return "\n".join([*(f"-{line}" for line in old.split("\n")), *(f"+{line}" for line in new.split("\n"))])
    lines = difflib.unified_diff(old.split("\n"), new.split("\n"), lineterm="", n=2)
    return "\n".join(line for line in lines if not line.startswith(("--- ", "+++ ")))


@dataclass
class ClientAsk:
    """Asks through elicitation: a call to the client in the handshake era, input requests in the stateless one.

    An answer that came with an earlier round of the same call is kept in the sealed request state, bound to
    the digest of the call, so that a yes for one call cannot be spent on another.
    """

    ctx: ServerRequestContext[Any, Any]
    params: t.CallToolRequestParams
    granted: set[str] = field(default_factory=set)

    async def __call__(self, about: str, question: str, digest: str) -> bool | None:
        """Put the question, or read the answer that came with the call."""
        capabilities = self.ctx.session.client_capabilities
        if capabilities is None or capabilities.elicitation is None:
            return None
        if self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return self._answered(about, question, digest)
        with anyio.move_on_after(ANSWER_TIMEOUT):
            try:
                result = await self.ctx.session.elicit_form(question, FORM, related_request_id=self.ctx.request_id)
            except MCPError:
                return False
            return _approved(result)
        return False

    def _answered(self, about: str, question: str, digest: str) -> bool:
        earlier = _state(self.params.request_state, digest)
        if about in earlier:
            return True
        answer = (self.params.input_responses or {}).get(about)
        asked = self.params.request_state is not None and _asked(self.params.request_state, digest) == about
        if answer is not None and asked:
            if _approved(answer):
                self.granted.add(about)
                return True
            return False
        state = json.dumps({"digest": digest, "granted": sorted(earlier | self.granted), "asked": about})
        request = t.ElicitRequest(params=t.ElicitRequestFormParams(message=question, requested_schema=FORM))
        raise NeedsInput(t.InputRequiredResult(request_state=state, input_requests={about: request}))


def _state(raw: str | None, digest: str) -> AbstractSet[str]:
    state = _parsed(raw, digest)
    return {str(name) for name in state.get("granted", ())}


def _asked(raw: str, digest: str) -> str | None:
    asked = _parsed(raw, digest).get("asked")
    return asked if isinstance(asked, str) else None


def _parsed(raw: str | None, digest: str) -> Mapping[str, Any]:
    try:
        state = json.loads(raw or "{}")
    except ValueError:
        return {}
    return state if isinstance(state, dict) and state.get("digest") == digest else {}


def _approved(answer: object) -> bool:
    return (
        isinstance(answer, t.ElicitResult)
        and answer.action == "accept"
        and (answer.content or {}).get("approve") is True
    )
