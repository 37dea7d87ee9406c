import contextlib
import json
import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each_row
from toolbox_mcp.sandbox.isolate import codec

# Characters of every kind, lone surrogates included.
text = st.text(st.characters(codec=None, categories=None))
zones = st.none() | st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
hashable = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | text
    | st.binary()
    | st.dates()
    | st.times(timezones=zones)
    | st.datetimes(timezones=zones)
    | st.decimals(allow_nan=False)
    | text.map(Path)
)
keys = st.recursive(hashable, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
values = st.recursive(
    hashable,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.sets(keys)
        | st.frozensets(keys)
        | st.dictionaries(keys, inner)
    ),
)


def there_and_back(value):
    prefix, *body = codec.encode(value)
    return codec.decode(prefix, b"".join(body))


def exactly(value):
    """The value with the type of every part, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return dict, sorted((repr(exactly(k)), repr(exactly(v))) for k, v in value.items())
    if isinstance(value, set | frozenset):
        return type(value), sorted(repr(exactly(item)) for item in value)
    if isinstance(value, list | tuple):
        return type(value), [exactly(item) for item in value]
    if isinstance(value, int):
        return type(value), hex(value)
    return type(value), repr(value)


@given(values)
def test_every_value_comes_back_as_it_went(value):
    assert exactly(there_and_back(value)) == exactly(value)


@each_row(
    "value",
    [
        10**5000,
        -(10**5000),
        [1, 10**5000],
        (True, 1, 1.0),
        math.inf,
        -math.inf,
        [-0.0, math.inf],
        Decimal("sNaN12"),
        Decimal("-Infinity"),
        "\ud83d" + "\ude00",
        "\ufeff",
        "\x00\x1f\x7f\u2028",
        {"$b": 3},
        {"$m": {"$t": []}},
        {"": b""},
        {1: "a", "1": "b", None: "c", (1, 2): {}},
        [b"a", {"k": b"b"}, (b"c", {b"d": b"e"})],
        datetime(2024, 10, 27, 2, 30, fold=1),
        time(2, 30, fold=1),
        datetime.max,
        date.min,
        Path("/a/\udcff"),
    ],
)
def test_awkward_values_come_back_as_they_went(value):
    assert exactly(there_and_back(value)) == exactly(value)


def test_nan_comes_back_as_nan():
    assert math.isnan(there_and_back([math.nan, None])[0])


class Text(str):
    __slots__ = ()


@each_row("value", [object(), 1j, bytearray(b"x"), Text("x"), range(3), timedelta(1), [{"a": len}]])
def test_a_type_that_is_not_carried_is_refused_before_anything_is_sent(value):
    with pytest.raises(TypeError, match="cannot pass between processes"):
        codec.encode(value)


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_is_carried_up_to_the_limit_and_refused_above():
    assert there_and_back(nested(codec.MAX_DEPTH - 1)) == nested(codec.MAX_DEPTH - 1)
    with pytest.raises(codec.CodecError, match="nested"):
        codec.encode(nested(codec.MAX_DEPTH))


def test_a_value_that_holds_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(codec.CodecError, match="nested"):
        codec.encode(value)


def test_bytes_are_not_copied_into_the_text():
    data = b"x" * 1_000_000
    assert codec.encode([data])[2] is data


def forged(text, blobs=b""):
    data = text if isinstance(text, bytes) else text.encode()
    return codec.PREFIX.pack(len(data), len(blobs)), data + blobs


@each_row(
    ("text", "blobs"),
    [
        ("", b""),
        ("{", b""),
        ("1 2", b""),
        (b"\xff", b""),
        ("[" * 100_000, b""),
        ("1" * 5000, b""),
        ('{"$b":9}', b"short"),
        ('{"$b":-1}', b""),
        ('{"$b":true}', b"x"),
        ('[{"$b":4},{"$b":4}]', b"once"),
        ("1", b"not mentioned"),
        ('{"$x":1}', b""),
        ('{"$t":"ab"}', b""),
        ('{"$s":[[]]}', b""),
        ('{"$m":[1]}', b""),
        ('{"$m":[[],1]}', b""),
        ('{"$i":5}', b""),
        ('{"$i":"z"}', b""),
        ('{"$d":"2024-13-01"}', b""),
        ('{"$d":null}', b""),
        ('{"$D":["2024-01-01",2,null]}', b""),
        ('{"$D":["2024-01-01",0,1e99]}', b""),
        ('{"$D":["2024-01-01",0,99999999999999]}', b""),
        ('{"$D":5}', b""),
        ('{"$h":["x"]}', b""),
        ('{"$n":"x"}', b""),
        ('{"$n":[0,[1],"x"]}', b""),
        ('{"$p":3}', b""),
    ],
)
def test_a_forged_frame_is_a_codec_error(text, blobs):
    with pytest.raises(codec.CodecError):
        codec.decode(*forged(text, blobs))


@given(st.binary(), st.integers(0, 40))
def test_noise_is_a_codec_error_or_a_value(noise, cut):
    prefix = codec.PREFIX.pack(min(cut, len(noise)), len(noise) - min(cut, len(noise)))
    with contextlib.suppress(codec.CodecError):
        codec.decode(prefix, noise)


tags = st.sampled_from(["$b", "$t", "$s", "$f", "$m", "$i", "$d", "$h", "$D", "$n", "$p"])
leaves = st.none() | st.booleans() | st.integers() | text.map(lambda t: t.encode("utf-8", "replace").decode())


@given(st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(tags, inner, max_size=1)))
def test_tags_around_anything_are_a_codec_error_or_a_value(tree):
    data = json.dumps(tree).encode()
    with contextlib.suppress(codec.CodecError):
        codec.decode(codec.PREFIX.pack(len(data), 0), data)


def test_a_frame_that_is_cut_short_is_a_codec_error():
    prefix, body = codec.encode([1, 2, 3])
    with pytest.raises(codec.CodecError, match="cut short"):
        codec.decode(prefix, body[:-1])
