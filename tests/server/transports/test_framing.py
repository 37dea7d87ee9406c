import json

from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from tests.tables import each_row
from toolbox_mcp.server.transports.stdio.framing import HEAD, LineSplitter, TooLong, find_id, read_line, write_line

DEEP = b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"


def answers(line):
    message, refusals = read_line(line)
    assert message is None
    return [(r.id, r.error.code) for r in refusals]


@each_row(
    ("line", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', JSONRPCRequest),
        (b' {"id":"a","method":"ping","params":{},"jsonrpc":"2.0"}\r', JSONRPCRequest),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', JSONRPCNotification),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', JSONRPCResponse),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}', JSONRPCError),
    ],
)
def test_a_message_is_read(line, kind):
    message, refusals = read_line(line)
    assert type(message) is kind
    assert refusals == []


@each_row(
    ("line", "answered"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{bad}}', [(7, -32700)]),
        (b'{"jsonrpc":"2.0","method":"tools/call","params":{"a":1,},"id":"seven"}', [("seven", -32700)]),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"\xff"}}', [(7, -32700)]),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"\\ud800"}}', [(7, -32700)]),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":NaN}}', [(7, -32700)]),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"cut off', [(7, -32700)]),
        (DEEP, [(7, -32700)]),
        (b'[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"n"},{"id":2,"method":"b"}]', [(1, -32600), (2, -32600)]),
        (b'{"jsonrpc":"1.0","id":7,"method":"m"}', [(7, -32600)]),
        (b'{"id":7,"method":"m"}', [(7, -32600)]),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', [(7, -32600)]),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}', [(7, -32600)]),
        (b'{"jsonrpc":"2.0","id":7}', [(7, -32600)]),
        (TooLong(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"te'), [(7, -32600)]),
    ],
)  # fmt: skip
def test_a_broken_request_is_answered_under_its_id(line, answered):
    assert answers(line) == answered


@each_row(
    "line",
    [
        b"",
        b"  \r",
        b"hello",
        b"7",
        b"null",
        b"[]",
        b"[1,2]",
        b"\x00\xff\xfe",
        b'{"jsonrpc":"2.0","id":null,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"m"}',
        b'{"jsonrpc":"2.0","id":true,"method":"m"}',
        b'{"jsonrpc":"2.0","id":[1],"method":"m"}',
        b'{"jsonrpc":"2.0","method":5}',
        b'{"jsonrpc":"2.0","method":"m","params":{bad',
        b'{"jsonrpc":"2.0","method":"m","params":{"id":7,bad',
        b'{"jsonrpc":"2.0","method":"m","params":{"text":"\\"id\\":7",bad',
        b'{"jsonrpc":"2.0","id":7,"result":{bad',
        b'{"jsonrpc":"2.0","error":{bad},"id":7',
        b'{"jsonrpc":"2.0","id":7,"result":5}',
        b'[{"id":7,"method":"m"},',
        TooLong(b'{"jsonrpc":"2.0","method":"m","params":{"id":7,"text":"'),
    ],
)
def test_what_has_no_known_request_id_is_skipped(line):
    assert answers(line) == []


def test_a_batch_of_many_is_not_answered_with_more():
    batch = json.dumps([{"id": i, "method": "m"} for i in range(5000)]).encode()
    assert len(answers(batch)) == 1000


def request_with(many, **params):
    return json.dumps(
        {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "t", **params, **many}}
    ).encode()


@each_row(
    "many",
    [
        {"inputResponses": {f"k{n}": 0 for n in range(10_000)}},
        {"_meta": {"icons": [0] * 10_000}},
        {"capabilities": [[[0] * 5000] * 2]},
        {f"k{n}": "" for n in range(10_000)},
    ],
)
def test_a_message_of_many_parts_is_refused_before_any_of_them_is_looked_at(many):
    message, [refusal] = read_line(request_with(many))
    assert (message, refusal.id, refusal.error.code) == (None, 7, -32600)
    response = json.dumps({"jsonrpc": "2.0", "id": 7, "result": many}).encode()
    assert read_line(response) == (None, [])


def test_the_arguments_of_a_tool_may_have_as_many_parts_as_they_like():
    message, refusals = read_line(request_with({}, arguments={"rows": [[0] * 10] * 10_000}))
    assert isinstance(message, JSONRPCRequest)
    assert refusals == []


@each_row("noise", [b'\\"', b'"', b'"a', b'"id" ', b"{", b'"id":"', b"\\"])
def test_a_hostile_line_is_searched_in_linear_time(noise):
    # Quadratic work over this text is minutes; the test would not end.
    find_id(b'{"a":"' + noise * (1_000_000 // len(noise)))


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=20), st.integers(1, 40))
def test_lines_do_not_depend_on_how_the_stream_is_chopped(lines, size):
    stream = b"".join(line + b"\n" for line in lines)
    cutter = LineSplitter(20)
    got = [line for i in range(0, len(stream), size) for line in cutter.feed(stream[i : i + size])]
    assert len(got) == len(lines)
    for line, cut in zip(lines, got, strict=True):
        assert cut == line if len(line) <= 20 else isinstance(cut, TooLong)
    assert cutter.rest() == b""


def test_a_line_without_end_takes_no_memory_beyond_the_limit():
    cutter = LineSplitter(1_000_000)
    found = [line for _ in range(1000) for line in cutter.feed(b"x" * 100_000)]
    assert found == [TooLong(b"x" * HEAD)]
    assert len(cutter._held) == 0
    assert list(cutter.feed(b"tail\nnext\n")) == [b"next"]


def test_the_last_line_needs_no_line_end():
    cutter = LineSplitter(100)
    assert list(cutter.feed(b"one\ntwo")) == [b"one"]
    assert cutter.rest() == b"two"


@each_row("text", ["caf\xe9 \u65e5\u672c \U0001f600", "a\nb\r\u2028c\x00", "\udcff", "a\ud800b\udc00"])
def test_any_text_leaves_as_one_valid_line(text):
    line = write_line(JSONRPCResponse(jsonrpc="2.0", id=1, result={"text": text, text: [text]}))
    assert line.count(b"\n") == 1
    clean = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    assert json.loads(line) == {"jsonrpc": "2.0", "id": 1, "result": {"text": clean, clean: [clean]}}
