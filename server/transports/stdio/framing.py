"""JSON-RPC messages on lines: cutting the stream, reading a line, and answering what cannot be read."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

HEAD: Final = 64 * 1024
"""Bytes of a broken or overlong line that are searched for its id. An id further back is not found."""

MAX_REFUSALS: Final = 1000
"""Members of one batch that are answered. A batch of a million would be answered with a hundred megabytes."""

MAX_PARTS: Final = 10_000
"""Values in a message beside the arguments of a tool, which have a pass of their own. Where a value does not fit, the
SDK's models keep up to two kilobytes for it, and a message of two bytes each could hold millions."""

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.DOTALL)
_COLON = re.compile(rb"\s*:")
_ID_VALUE = re.compile(rb'\s*:\s*(?:(-?\d{1,18})(?=[\s,}])|("(?:[^"\\]|\\.){0,256}"))', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class TooLong:
    """A line above the limit: its first bytes, the rest is gone."""

    head: bytes


class LineSplitter:
    """Cut a byte stream into lines of at most max_line bytes, holding no more than that and one chunk."""

    def __init__(self, max_line: int) -> None:
        """Start at the beginning of a line."""
        self._max_line = max_line
        self._held = bytearray()
        self._searched = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        """Yield each line that chunk completes, without its line end."""
        self._held += chunk
        while (end := self._held.find(b"\n", self._searched)) >= 0:
            line = bytes(self._held[:end])
            del self._held[: end + 1]
            self._searched = 0
            if self._skipping:
                self._skipping = False
            elif len(line) > self._max_line:
                yield TooLong(line[:HEAD])
            else:
                yield line
        if self._skipping:
            self._held.clear()
        elif len(self._held) > self._max_line:
            yield TooLong(bytes(self._held[:HEAD]))
            self._held.clear()
            self._skipping = True
        self._searched = len(self._held)

    def rest(self) -> bytes:
        """Return the last line if the stream ended without a line end."""
        line = b"" if self._skipping else bytes(self._held)
        self._held.clear()
        return line


def read_line(line: bytes | TooLong) -> tuple[JSONRPCMessage | None, list[JSONRPCError]]:
    """Return the message on a line, or the error answers that are due for it.

    An answer is due only where the id of a request can be known. A line that is empty, a malformed
    notification and a malformed response have none, and are skipped.
    """
    if isinstance(line, TooLong):
        return None, _refusals([find_id(line.head)], INVALID_REQUEST, "The message is longer than the server accepts")
    if not line.strip():
        return None, []
    try:
        data = from_json(line, allow_inf_nan=False)
    except ValueError:
        return None, _refusals([find_id(line[:HEAD])], PARSE_ERROR, "Parse error")
    if isinstance(data, list):
        ids = [_request_id(item) for item in data if isinstance(item, dict) and "method" in item]
        return None, _refusals(ids, INVALID_REQUEST, "Batches are not supported; send one message a line")
    if not isinstance(data, dict):
        return None, []
    if too_many_values(data, len(line)):
        known = _request_id(data) if "method" in data else None
        return None, _refusals([known], INVALID_REQUEST, "The message has too many parts")
    message = _message(data)
    if message is None and "result" not in data and "error" not in data:
        return None, _refusals([_request_id(data)], INVALID_REQUEST, "Not a JSON-RPC 2.0 request")
    return message, []


def too_many_values(data: dict[Any, Any], size: int) -> bool:
    """Return True if a message of this many bytes has more than MAX_PARTS values beside the arguments of a tool."""
    if size <= 2 * MAX_PARTS:
        return False
    params = data.get("params")
    if data.get("method") == "tools/call" and isinstance(params, dict):
        params = {name: value for name, value in params.items() if name != "arguments"}
    todo: list[Any] = [{**data, "params": params}]
    parts = 0
    while todo:
        node = todo.pop()
        for value in node.values() if isinstance(node, dict) else node:
            parts += 1
            if parts > MAX_PARTS:
                return True
            if isinstance(value, (dict, list)):
                todo.append(value)
    return False


def write_line(message: JSONRPCMessage) -> bytes:
    """Return the message as a line. Lone surrogates, which UTF-8 cannot carry, become U+FFFD."""
    try:
        return message.__pydantic_serializer__.to_json(message, by_alias=True, exclude_unset=True) + b"\n"
    except (PydanticSerializationError, UnicodeEncodeError):
        clean = _without_surrogates(message.model_dump(by_alias=True, exclude_unset=True))
        return to_json(clean, inf_nan_mode="null", fallback=str) + b"\n"


def write_result(request_id: RequestId, result: dict[str, Any]) -> bytes:
    """Return the answer to a request as a line, as write_line does."""
    answer = {"jsonrpc": "2.0", "id": request_id, "result": result}
    try:
        return to_json(answer, inf_nan_mode="null") + b"\n"
    except (PydanticSerializationError, UnicodeEncodeError):
        return to_json(_without_surrogates(answer), inf_nan_mode="null", fallback=str) + b"\n"


def find_id(text: bytes) -> RequestId | None:
    """Return the id of the request that this broken text seems to be.

    Only an `id` member of the outermost object counts, so a field called id in the arguments is never
    answered. A text with a `result` or `error` member is a response, whose id is not the sender's.
    """
    depth = 0
    found: RequestId | None = None
    if not text.lstrip().startswith(b"{"):
        return None
    for token in _TOKEN.finditer(text):
        word = token.group()
        if word in (b"{", b"["):
            depth += 1
        elif word in (b"}", b"]"):
            depth -= 1
        elif depth == 1 and _COLON.match(text, token.end()):
            if word in (b'"result"', b'"error"'):
                return None
            if word == b'"id"' and found is None and (value := _ID_VALUE.match(text, token.end())):
                found = _id_value(value)
    return found


def _id_value(value: re.Match[bytes]) -> RequestId | None:
    if value[1] is not None:
        return int(value[1])
    try:
        text = from_json(value[2])
    except ValueError:
        return None
    return text if isinstance(text, str) else None


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(item) for item in value]
    return value


def _message(data: dict[Any, Any]) -> JSONRPCMessage | None:
    try:
        if "method" in data:
            kind = JSONRPCRequest if "id" in data else JSONRPCNotification
            message: JSONRPCMessage = kind.__pydantic_validator__.validate_python(data)
            return message
        if "result" in data:
            return JSONRPCResponse.model_validate(data)
        if "error" in data:
            return JSONRPCError.model_validate(data)
    except ValidationError:
        pass
    return None


def _request_id(data: dict[Any, Any]) -> RequestId | None:
    value = data.get("id")
    return value if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)) else None


def _refusals(ids: list[RequestId | None], code: int, message: str) -> list[JSONRPCError]:
    error = ErrorData(code=code, message=message)
    return [JSONRPCError(jsonrpc="2.0", id=known, error=error) for known in ids[:MAX_REFUSALS] if known is not None]
