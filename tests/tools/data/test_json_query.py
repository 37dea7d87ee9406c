import json

import pytest

from tests.tables import each_row
from toolbox_mcp.tools.data._query import evaluated, parsed

DOCUMENT = {"users": [{"name": "é", "age": 3}, {"name": "B", "tags": ["x"]}], "a.b": {"c": 1}, "n": None, "t": True}
TEXT = json.dumps(DOCUMENT, ensure_ascii=False)


@each_row(
    ("query", "answer"),
    [
        (None, json.dumps(DOCUMENT, indent=2, ensure_ascii=False)),
        (".", json.dumps(DOCUMENT, indent=2, ensure_ascii=False)),
        ("$", json.dumps(DOCUMENT, indent=2, ensure_ascii=False)),
        ("users[1]", '{\n  "name": "B",\n  "tags": [\n    "x"\n  ]\n}'),
        ("users[0].name", '1 value\n"é"'),
        ("$.users[0].age", "1 value\n3"),
        ('$["users"][0].age', "1 value\n3"),
        ('["a.b"].c', "1 value\n1"),
        ("users[].name", '2 items\n[\n  "é",\n  "B"\n]'),
        ("users[].tags[]", '2 items\n[\n  null,\n  [\n    "x"\n  ]\n]'),
        ("users[1].tags[]", '1 item\n[\n  "x"\n]'),
        ("n", "1 value\nnull"),
        ("n.deeper[3][].x", "1 value\nnull"),
        ("t", "1 value\ntrue"),
        ("nope.x", "the document has no nope\nnull"),
        ("users[9].name", "users has no [9]\nnull"),
        ('["a\x1b\u202e"]', 'the document has no ["a<U+001B><U+202E>"]\nnull'),
        ("users[0].nope", "users[0] has no nope\nnull"),
    ],
)
async def test_a_query_answers_with_pretty_json_and_a_first_line_where_that_is_no_object(call, query, answer):
    assert await call("json_query", json=TEXT, query=query) == answer


async def test_a_query_that_is_malformed_or_does_not_fit_says_where(call):
    table = {
        "users.name": "character 6 of the query: users is a list, which has no keys (line 1, column 11)",
        "users[].name.x": "character 13 of the query: users[0].name is a string, which has no keys (line 1, column 21)",
        "t[0]": "character 2 of the query: t is a boolean, which has no index (line 1, column 101)",
        '["a.b"][]': 'character 8 of the query: ["a.b"] is an object, which has no elements (line 1, column 75)',
        "users[-1]": 'character 6 of the query, at "[-1]": expected [N] with N from 0, [] or ["key"]',
        "users[0": 'character 6 of the query, at "[0": expected [N] with N from 0, [] or ["key"]',
        "users[x]": 'character 6 of the query, at "[x]": expected [N] with N from 0, [] or ["key"]',
        "a..b": 'character 3 of the query, at ".b": expected a key',
        "users[0].": "character 10 of the query, at its end: expected a key",
        "users[0]name": 'character 9 of the query, at "name": expected . or [',
        '["\\q"]': 'character 1 of the query, at "[\\"\\\\q\\"]": the key in quotes has an escape that JSON does not know',
        "a" * 10_001: "the query is longer than 10000 characters",
    }
    failed = []
    for query, error in table.items():
        answer = await call("json_query", json=TEXT, query=query)
        said = (answer["error"], answer["code"]) if isinstance(answer, dict) else None
        if said != (error, "bad_query"):
            failed.append((query[:30], answer))
    assert failed == []


async def test_an_empty_file_is_malformed_and_an_empty_argument_absent(call, project):
    (project / "empty.json").touch()
    answer = await call("json_query", path="empty.json", json="")
    assert answer["code"] == "bad_json"
    assert answer["error"].endswith("the JSON does not parse: Expecting value at line 1, column 1")
    assert await call.code("json_query", json="") == "no_input"


async def test_a_malformed_document_says_where(call):
    table = {
        "[1,2": "Expecting ',' delimiter at line 1, column 5",
        '{"a": 1,\n "b": NaN}': "NaN is no JSON at line 2, column 7",
        '["NaN", -Infinity]': "-Infinity is no JSON at line 1, column 9",
        "[1,\n1e999]": "the number 1e999 is out of range at line 2, column 1",
        "[" * 201 + "]" * 201: "nested deeper than 200 levels at line 1, column 201",
        "[" * 100_000: "nested deeper than 200 levels at line 1, column 201",
        '{"a":' * 100_000: "nested deeper than 200 levels at line 1, column 1001",
        "9" * 4001: "a number has more than 4000 digits at line 1, column 1",
        "1." + "9" * 4001: "a number has more than 4000 digits at line 1, column 1",
        '{"a": 1}\n{"a": 2}': "Extra data at line 2, column 1",
        '"\t"': "Invalid control character at line 1, column 2",
    }
    failed = []
    for text, error in table.items():
        answer = await call("json_query", json=text)
        if (answer["error"], answer["code"]) != (f"the JSON does not parse: {error}", "bad_json"):
            failed.append((text[:30], answer))
    assert failed == []


async def test_what_is_at_the_bounds_is_read(call):
    table = {
        "[" * 200 + "]" * 200: "1 item",
        "[" + "9" * 4000 + "]": "1 item",
        "[" * 199 + "{}" + "]" * 199: "1 item",
    }
    call.tokens = 20_000
    assert [
        text[:20] for text, first in table.items() if (await call("json_query", json=text)).split("\n")[0] != first
    ] == []


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"a": 1, "a": 2}', '{\n  "a": 2\n}'),
        (
            '["\\ud800", "\\u202e", "\\u009b", "\\u0000"]',
            '4 items\n[\n  "\\ud800",\n  "\\u202e",\n  "\\u009b",\n  "\\u0000"\n]',
        ),
        ("[12345678901234567890123, 1.50, 1e2]", "3 items\n[\n  12345678901234567890123,\n  1.5,\n  100.0\n]"),
        ('[[], {}, [[]], ""]', '4 items\n[\n  [],\n  {},\n  [\n    []\n  ],\n  ""\n]'),
        ("\ufeff{}", "{}"),
    ],
)
async def test_a_document_is_printed_as_json_that_is_safe_to_show(call, text, answer):
    assert await call("json_query", json=text) == answer


async def test_files_are_read_and_json_lines_are_a_list(call, project):
    (project / "a.json").write_bytes(b'\xef\xbb\xbf{"a":\r\n [1]}')
    (project / "a.jsonl").write_text('{"n": 1}\n\n{"n": {"m": 2}}\n')
    (project / "bad.ndjson").write_text('{"n": 1}\n{"n": }\n')
    (project / "b.json").write_bytes(b"\0\1")
    (project / "big.json").write_bytes(b" " * (5 * 2**20 + 1))
    assert await call("json_query", path="a.json") == '{\n  "a": [\n    1\n  ]\n}'
    assert await call("json_query", path="a.jsonl", query="[1].n") == '{\n  "m": 2\n}'
    assert await call("json_query", json="1\n2", lines=True, query="[]") == "2 items\n[\n  1,\n  2\n]"
    assert (await call("json_query", path="a.jsonl", query="[].n.m"))["error"] == (
        "character 5 of the query: [0].n is a number, which has no keys (line 1, column 7)"
    )
    assert (await call("json_query", path="bad.ndjson"))["error"] == (
        "the JSON does not parse: Expecting value at line 2, column 7"
    )
    codes = {"b.json": "binary_file", "big.json": "too_large", "none.json": "not_a_file", "../x.json": "path_denied"}
    assert {path: await call.code("json_query", path=path) for path in codes} == codes


async def test_one_source_is_needed(call, project):
    (project / "a.json").write_text("{}")
    assert await call.code("json_query") == "no_input"
    assert await call.code("json_query", path="a.json", json="{}") == "invalid_args"


async def test_the_marker_of_a_cut_names_the_keys_and_their_sizes(call):
    text = json.dumps(
        {"users": [{"id": n, "name": "x"} for n in range(9000)], "meta": {"a": 1}, "a b": "x" * 9, "k": 7}
    )
    whole = await call("json_query", json=text)
    assert whole.endswith(
        ' tokens cut; query a key of it: users (list of 9000), meta (object of 1), "a b" (string of 9), k (number)]'
    )
    users = await call("json_query", json=text, query="users")
    assert users.endswith(" tokens cut; query [0] to [8999], or [].KEY with id, name]")
    assert "[8999].name" not in whole
    others = {
        "yaml": "users:\n" + "- {id: 1, name: x}\n" * 9000 + "meta: {a: 1}\n",
        "toml": "meta = {a = 1}\n" + '[[users]]\nid = 1\nname = "x"\n' * 9000,
    }
    markers = {
        form: (await call(f"{form}_query", **{form: other})).rpartition("; ")[2] for form, other in others.items()
    }
    assert markers == {
        "yaml": "query a key of it: users (list of 9000), meta (object of 1)]",
        "toml": "query a key of it: meta (object of 1), users (list of 9000)]",
    }


async def test_a_document_of_five_megabytes_is_queried_in_the_worker(call, project):
    rows = [{"id": n, "name": f"user {n}", "nested": {"x": [n, None, True]}} for n in range(70_000)]
    (project / "large.json").write_text(json.dumps({"rows": rows}))
    assert 4 * 2**20 < (project / "large.json").stat().st_size <= 5 * 2**20
    assert await call("json_query", path="large.json", query="rows[69999].nested.x[0]") == "1 value\n69999"


def test_a_query_that_multiplies_is_given_up():
    from toolbox_mcp.safety.errors import ToolError

    value: object = {"x": 1}
    for _ in range(30):
        value = [value, value]
    with pytest.raises(ToolError, match="looks at more than 1000000 values"):
        evaluated(value, parsed("[]" * 30 + ".x"), "[]" * 30 + ".x")
