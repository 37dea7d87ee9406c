import json

DOCUMENT = """\
title = "é"
when = 1979-05-27T07:32:00Z
day = 1979-05-27
at = 07:32:00
none = nan
[tool."a.b"]
"line-length" = 120
[[users]]
name = "x"
[[users]]
name = "y"
"""


async def test_a_document_is_json_with_dates_as_iso_text(call):
    assert json.loads(await call("toml_query", toml=DOCUMENT)) == {
        "title": "é", "when": "1979-05-27T07:32:00+00:00", "day": "1979-05-27", "at": "07:32:00", "none": "nan",
        "tool": {"a.b": {"line-length": 120}}, "users": [{"name": "x"}, {"name": "y"}],
    }  # fmt: skip


async def test_a_query_leads_into_it(call, project):
    (project / "a.toml").write_text(DOCUMENT)
    assert await call("toml_query", path="a.toml", query="users[].name") == '2 items\n[\n  "x",\n  "y"\n]'
    assert await call("toml_query", path="a.toml", query='tool["a.b"].line-length') == "1 value\n120"
    assert (await call("toml_query", path="a.toml", query="users.name"))["error"] == (
        "character 6 of the query: users is a list, which has no keys"
    )


async def test_a_malformed_document_says_where(call):
    table = {
        "a = 1\na = 2": "Cannot overwrite a value at the end",
        "a = 1\na = 2\nb = 3": "Cannot overwrite a value at line 2, column 6",
        "a = 1e400": "the number 1e400 is out of range",
        "a = 1\nb = \n": "Invalid value at line 2, column 5",
        "[a]\n[a]\n": "Cannot declare ('a',) twice at line 2, column 3",
        "a = " + "[" * 65 + "]" * 65: "nested deeper than 64 levels",
        "a = " + "[" * 5000 + "]" * 5000: "nested deeper than 64 levels",
        ".".join("a" * 65) + " = 1": "nested deeper than 64 levels",
    }
    failed = []
    for text, error in table.items():
        answer = await call("toml_query", toml=text)
        if (answer["error"], answer["code"]) != (f"the TOML does not parse: {error}", "bad_toml"):
            failed.append((text[:40], answer))
    assert failed == []
    assert await call.code("toml_query", toml="d = 2001-99-99") == "bad_toml"
    assert await call.code("toml_query", toml="n = " + "9" * 5000) == "bad_toml"


async def test_sources_are_refused_as_for_json(call, project):
    (project / "big.toml").write_bytes(b"#" * (5 * 2**20 + 1))
    assert await call.code("toml_query") == "no_input"
    assert await call.code("toml_query", path="big.toml", toml="a") == "invalid_args"
    assert await call.code("toml_query", path="big.toml") == "too_large"
