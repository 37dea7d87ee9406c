import json

import pytest

DOCUMENT = """\
on: push
defaults: &d {k: 1, kept: yes}
job: {<<: *d, k: 2}
jobs:
  - <<: [*d, {other: x}]
  - 1: one
    null: two
---
second: true
---
- third
"""


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({}, {"on": "push", "defaults": {"k": 1, "kept": True}, "job": {"k": 2, "kept": True},
              "jobs": [{"other": "x", "k": 1, "kept": True}, {"1": "one", "null": "two"}]}),
        ({"document": 2}, {"second": True}),
        ({"query": "job"}, {"k": 2, "kept": True}),
        ({"query": "jobs[1]"}, {"1": "one", "null": "two"}),
    ],
)  # fmt: skip
async def test_a_document_of_a_stream_is_json_with_keys_as_they_are_written(call, arguments, answer):
    assert json.loads(await call("yaml_query", yaml=DOCUMENT, **arguments)) == answer


async def test_a_scalar_is_what_yaml_1_1_says_without_base_60_and_dates(call):
    table = {
        "1:30": "1:30", "190:20:30": "190:20:30", "2001-01-01": "2001-01-01", "2001-99-99": "2001-99-99",
        "0x1f": 31, "0b11": 3, "017": 15, "1_000": 1000, "+5": 5, "1.5": 1.5, ".5": 0.5, "1e3": "1e3", "1.0e+3": 1000.0,
        "yes": True, "Off": False, "~": None, "null": None, "nullx": "nullx", ".inf": ".inf", ".NaN": ".NaN",
        "'1'": "1", '"yes"': "yes", "!!str 1": "1", "!!int '3'": 3, "!!float 3": 3.0, "! 3": "3", "!!binary aGk=": "aGk=",
        "!!null ''": None, "|\n  a\n  b\n": "a\nb\n", ">\n  a\n  b\n": "a b\n", "é": "é", "-": [None], "{}": {}, "": None,
        "!!set {a, b}": {"a": None, "b": None}, "!!omap [a: 1]": [{"a": 1}], "08": "08", "0": 0, "-0x_": "-0x_",
        "!!timestamp 2001-01-01": "2001-01-01", "&a x": "x",
    }  # fmt: skip
    failed = []
    for text, value in table.items():
        answer = await call("yaml_query", yaml=f"v: {text}\n" if not text.startswith("-\n") else text, query="v")
        if text == "-":
            answer = await call("yaml_query", yaml="v:\n-\n", query="v")
        found = json.loads(answer.removeprefix("1 value\n").removeprefix("1 item\n").removeprefix("2 items\n"))
        if found != value or type(found) is not type(value):
            failed.append((text, answer))
    assert failed == []


async def test_what_is_no_plain_data_or_malformed_says_where(call):
    table = {
        "a: !!python/object:os.system {}": "the tag !!python/object:os.system is no plain data at line 1, column 4",
        "a: !!python/name:os.system ''": "the tag !!python/name:os.system is no plain data at line 1, column 4",
        "- !ruby/object:Gem {}": "the tag !ruby/object:Gem is no plain data at line 1, column 3",
        "!Ref x": "the tag !Ref is no plain data at line 1, column 1",
        "a: b: c": "mapping values are not allowed in this context at line 1, column 5",
        "a: 1\n\tb: 2": "found a tab character that violates indentation at line 2, column 1",
        "&a [*a]": "the alias *a stands for what it is in at line 1, column 5",
        "a: *q": "the alias *q has no anchor before it at line 1, column 4",
        "? [a]\n: 1": "a key is a list at line 1, column 3",
        "? {a: 1}\n: 1": "a key is a mapping at line 1, column 3",
        "<<: 3": "<< merges a mapping or a list of mappings at line 1, column 5",
        "!!int x": "'x' is no !!int at line 1, column 1",
        "!!bool 3": "'3' is no !!bool at line 1, column 1",
        "v: " + "9" * 4001: "a number has more than 4000 digits at line 1, column 4",
        "v: 9" + "0" * 400 + ".0": "a number is out of range at line 1, column 4",
    }
    failed = []
    for text, error in table.items():
        answer = await call("yaml_query", yaml=text)
        said = (answer["error"], answer["code"]) if isinstance(answer, dict) else None
        if said != (f"the YAML does not parse: {error}", "bad_yaml"):
            failed.append((text[:40], answer))
    assert failed == []


async def test_a_query_that_does_not_fit_says_where_in_the_file(call, project):
    (project / "a.yml").write_text("first: 1\n---\na:\n  - b: {c: text}\n  - &x q\n")
    table = {
        ("a[0].b.c.d", 2): "character 9 of the query: a[0].b.c is a string, which has no keys (line 4, column 12)",
        ("a.b", 2): "character 2 of the query: a is a list, which has no keys (line 4, column 3)",
        ("a[1].z", 2): "character 5 of the query: a[1] is a string, which has no keys (line 5, column 5)",
        ("first[]", 1): "character 6 of the query: first is a number, which has no elements (line 1, column 8)",
    }
    failed = []
    for (query, document), error in table.items():
        answer = await call("yaml_query", path="a.yml", query=query, document=document)
        if answer.get("error") != error:
            failed.append((query, answer))
    assert failed == []
    answer = await call("yaml_query", path="a.yml", document=3)
    assert (answer["code"], answer["error"]) == ("invalid_args", "document: expected 1 to 2, the text has 2 documents")


async def test_a_later_document_that_is_malformed_does_not_disturb_the_first(call):
    assert await call("yaml_query", yaml="a: 1\n---\n{[") == '{\n  "a": 1\n}'


async def test_the_answer_has_a_bound_of_nodes_and_the_way_on_is_named(call):
    answer = await call("yaml_query", yaml="few: 1\nmany: [" + "1, " * 100_000 + "1]")
    assert (answer["code"], answer["hint"]) == (
        "output_limit", "query a key of it: few (number), many (list of 100001)",
    )  # fmt: skip
    assert (
        await call("yaml_query", yaml="few: 1\nmany: [" + "1, " * 100_000 + "1]", query="many[100000]") == "1 value\n1"
    )


async def test_sources_are_refused_as_for_json(call, project):
    (project / "big.yaml").write_bytes(b"#" * (5 * 2**20 + 1))
    assert await call.code("yaml_query") == "no_input"
    assert await call.code("yaml_query", path="big.yaml", yaml="a") == "invalid_args"
    assert await call.code("yaml_query", path="big.yaml") == "too_large"
    assert await call.code("yaml_query", path="none.yaml") == "not_a_file"
    assert await call.code("yaml_query", yaml="a: 1", query="a[") == "bad_query"
