"""Questions to the person at the client: may the agent do this?"""

import hashlib
import json
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

from ...safety.redaction import redact

PATIENCE = 120.0
"""Seconds that the person has for an answer (TOOLS.md §1.8)."""

ARGUMENTS_SHOWN = 1000
"""Characters of the arguments that a question shows."""

LONG = 200
"""Characters above which an argument is content, and comes behind those that say what is done with it; a guess."""

LOOKED_AT = 4 * ARGUMENTS_SHOWN
"""Characters of an argument that are searched for secrets: what is cut off there is not shown, not even in part."""

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


async def nobody(about: str, question: str, digest: str) -> None:
    """Answer for callers without a person behind them."""


async def digest(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return what binds an answer to one exact call. Other calls go on meanwhile, however long the arguments are."""
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
    """Return the question, with the secrets in the arguments masked. Long arguments come last and are cut."""
    order = sorted(arguments, key=lambda name: (_is_long(arguments[name]), name))
    shown = json.dumps(redact({name: arguments[name] for name in order}, LOOKED_AT), ensure_ascii=False)
    if len(shown) > ARGUMENTS_SHOWN:
        shown = shown[:ARGUMENTS_SHOWN] + "..."
    return f"{why} {tool} with {shown}"


def _is_long(value: Any) -> bool:
    return not isinstance(value, str | int | float | None) or (isinstance(value, str) and len(value) > LONG)


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
        with anyio.move_on_after(PATIENCE):
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
