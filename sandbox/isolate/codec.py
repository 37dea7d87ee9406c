"""Values on their way between processes: tagged JSON with the bytes beside it, never pickle.

Carried: None, bool, int, float (nan and inf too), str (lone surrogates too), bytes, list,
tuple, dict, set, frozenset, date, time, datetime, Decimal and Path, of exactly these types.
A time zone travels as its offset. A frame is two lengths, the JSON text and the bytes of all
bytes values in the order in which the text mentions them; each is used once, so a forged
frame cannot name the same megabytes a million times.
"""

import json
import socket
import struct
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

PREFIX = struct.Struct("!QQ")
"""Length of the JSON text and of the bytes after it."""

MAX_DEPTH = 250
"""Levels of nesting. The deepest value a tool makes is JSON of 200 levels; the interpreter
itself gives up near 1,000 frames and this leaves two frames to a level."""

# Python refuses to print integers above 4,300 digits, and JSON needs them printed.
_PLAIN_INT = 1 << 64
_PLAIN = frozenset({str, float, bool, type(None)})


class CodecError(ValueError):
    """A frame that no encoder made, or a value nested too deeply."""


def encode(value: object) -> list[bytes]:
    """Return the frame of a value as buffers to send one after the other.

    Raises TypeError for a type that is not carried, CodecError above MAX_DEPTH.
    """
    blobs: list[bytes] = []
    try:
        text = json.dumps(_tagged(value, blobs, MAX_DEPTH), ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise CodecError("the value is nested too deeply") from None
    # surrogatepass keeps a lone surrogate, and also two that only look like a pair.
    data = text.encode("utf-8", "surrogatepass")
    return [PREFIX.pack(len(data), sum(map(len, blobs))), data, *blobs]


def body_size(prefix: bytes | bytearray) -> int:
    """Return the length after a prefix."""
    text, blobs = PREFIX.unpack(prefix)
    return int(text) + int(blobs)


def fill(link: socket.socket, buffer: bytearray) -> bool:
    """Read from a blocking socket until a buffer is full; False when the other side closes before."""
    view = memoryview(buffer)
    while view:
        count = link.recv_into(view)
        if not count:
            return False
        view = view[count:]
    return True


def decode(prefix: bytes | bytearray, body: bytes | bytearray) -> Any:
    """Return the value of a frame. Raises CodecError, whatever the frame holds."""
    length = PREFIX.unpack(prefix)[0]
    if len(body) != body_size(prefix):
        raise CodecError("the frame is cut short")
    reader = _Untagging(memoryview(body), length)
    try:
        value = json.loads(str(reader.body[:length], "utf-8", "surrogatepass"), object_hook=reader.untag)
    except CodecError:
        raise
    except (ValueError, TypeError, ArithmeticError, RecursionError) as e:
        raise CodecError(f"the frame does not parse: {type(e).__name__}") from None
    if reader.at != len(body):
        raise CodecError("the frame holds bytes that it does not mention")
    return value


def _tagged(value: object, blobs: list[bytes], depth: int) -> object:
    if not depth:
        raise CodecError(f"the value is nested more than {MAX_DEPTH} levels deep")
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, int) and kind is int:
        return value if -_PLAIN_INT < value < _PLAIN_INT else {"$i": hex(value)}
    if isinstance(value, bytes) and kind is bytes:
        blobs.append(value)
        return {"$b": len(value)}
    if isinstance(value, list) and kind is list:
        return _items(value, blobs, depth)
    if isinstance(value, dict) and kind is dict:
        return _mapping(value, blobs, depth)
    if isinstance(value, tuple) and kind is tuple:
        return {"$t": _items(value, blobs, depth)}
    if isinstance(value, set | frozenset) and kind in (set, frozenset):
        return {"$s" if kind is set else "$f": _items(list(value), blobs, depth)}
    return _scalar(value)


def _items(value: list[Any] | tuple[Any, ...], blobs: list[bytes], depth: int) -> object:
    # A million numbers or lines are common and need no call each.
    kinds = set(map(type, value))
    if kinds <= _PLAIN or (kinds == {int} and min(value) > -_PLAIN_INT and max(value) < _PLAIN_INT):
        return value
    return [_tagged(item, blobs, depth - 1) for item in value]


def _mapping(value: dict[Any, Any], blobs: list[bytes], depth: int) -> object:
    if all(type(key) is str and key[:1] != "$" for key in value):
        if set(map(type, value.values())) <= _PLAIN:
            return value
        return {key: _tagged(item, blobs, depth - 1) for key, item in value.items()}
    flat: list[object] = []
    for key, item in value.items():
        flat += (_tagged(key, blobs, depth - 1), _tagged(item, blobs, depth - 1))
    return {"$m": flat}


def _scalar(value: object) -> object:
    kind = type(value)
    if isinstance(value, datetime) and kind is datetime:
        return {"$D": [value.replace(tzinfo=None).isoformat(), value.fold, _offset(value)]}
    if isinstance(value, date) and kind is date:
        return {"$d": value.isoformat()}
    if isinstance(value, time) and kind is time:
        return {"$h": [value.replace(tzinfo=None).isoformat(), value.fold, _offset(value)]}
    if isinstance(value, Decimal) and kind is Decimal:
        return {"$n": str(value)}
    if isinstance(value, Path):
        return {"$p": str(value)}
    raise TypeError(f"a value of type {kind.__name__} cannot pass between processes")


def _offset(value: datetime | time) -> int | None:
    # In microseconds: fromisoformat of Python 3.11 reads offsets below a second as UTC.
    offset = value.utcoffset()
    return None if offset is None else offset // timedelta(microseconds=1)


def _zone(offset: int | None) -> timezone | None:
    return None if offset is None else timezone(timedelta(microseconds=offset))


class _Untagging:
    """Turns tagged objects back while json builds them, innermost first and left to right."""

    def __init__(self, body: memoryview, at: int) -> None:
        self.body = body
        self.at = at

    def untag(self, parts: dict[str, Any]) -> Any:
        if len(parts) != 1:
            return parts
        ((tag, value),) = parts.items()
        if tag[:1] != "$":
            return parts
        match tag:
            case "$b":
                return self._take(value)
            case "$t":
                return tuple(_list(value))
            case "$s":
                return set(_list(value))
            case "$f":
                return frozenset(_list(value))
            case "$m":
                flat = _list(value)
                return dict(zip(flat[::2], flat[1::2], strict=True))
            case "$i":
                return int(value, 16)
            case "$D":
                stamp, fold, offset = value
                return datetime.fromisoformat(stamp).replace(fold=fold, tzinfo=_zone(offset))
            case "$h":
                stamp, fold, offset = value
                return time.fromisoformat(stamp).replace(fold=fold, tzinfo=_zone(offset))
            case "$d":
                return date.fromisoformat(value)
            case "$n":
                return Decimal(_text(value))
            case "$p":
                return Path(_text(value))
            case _:
                raise CodecError("the frame holds an unknown tag")

    def _take(self, length: object) -> bytes:
        if type(length) is not int or not 0 <= length <= len(self.body) - self.at:
            raise CodecError("the frame mentions bytes that it does not hold")
        start, self.at = self.at, self.at + length
        return bytes(self.body[start : self.at])


def _list(value: object) -> list[Any]:
    if isinstance(value, list):
        return value
    raise CodecError("the frame holds a tag with the wrong value")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise CodecError("the frame holds a tag with the wrong value")
