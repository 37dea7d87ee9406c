import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each_row
from toolbox_mcp.server.config.jsonc import NotJson, member, with_member, without_member

PATH = ["servers", "toolbox"]

COMMENTED = """\
// My servers. Do not lose this.
{
    "theme": "dark", // as ever
    "servers": {
        /* kept */
        "other": { "command": "x", "args": ["//no comment", "}"] }, // trailing comma below
        "third": {}, // last
    },
}
"""


@each_row(
    ("text", "made"),
    [
        ("", '{\n  "servers": {\n    "toolbox": 1\n  }\n}\n'),
        ("{}", '{\n  "servers": {\n    "toolbox": 1\n  }\n}'),
        ('{\n\t"a": 1\n}\n', '{\n\t"a": 1,\n\t"servers": {\n\t\t"toolbox": 1\n\t}\n}\n'),
        ('{"servers": {"toolbox": {"old": []}}}', '{"servers": {"toolbox": 1}}'),
        ('{"servers": {"a": 2}, "b": 3}', '{"servers": {"a": 2,\n    "toolbox": 1}, "b": 3}'),
        ('{\n  "a": 1, // why\n}', '{\n  "a": 1,\n  "servers": {\n    "toolbox": 1\n  }, // why\n}'),
        ("{ // empty\n}", '{ // empty\n  "servers": {\n    "toolbox": 1\n  }\n}'),
    ],
)
def test_a_member_is_set_and_the_rest_stays(text, made):
    assert with_member(text, PATH, 1) == made


def test_no_comment_and_no_other_entry_is_lost():
    added = with_member(COMMENTED, PATH, {"command": "c", "args": []})
    for kept in ("// My servers. Do not lose this.", "// as ever", "/* kept */", "// trailing comma below", "// last"):
        assert kept in added
    assert member(added, ["servers", "other", "args"]) == ["//no comment", "}"]
    assert member(added, PATH) == {"command": "c", "args": []}
    back = without_member(added, PATH)
    assert member(back, PATH) is None
    assert member(back, []) == member(COMMENTED, [])
    for kept in ("// My servers. Do not lose this.", "/* kept */", "// last"):
        assert kept in back


@each_row("text", ['{"a": 1', "[1]", "no", '{"servers": []}', '{"servers": "x"}', "{'a': 1}", '{"a" 1}'])
def test_what_is_not_an_object_of_objects_is_refused(text):
    with pytest.raises(NotJson):
        with_member(text, PATH, 1)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=5), st.dictionaries(st.text(max_size=5), _values, max_size=3), max_size=4),
    st.text(max_size=5),
    st.text(max_size=5),
    _values,
    st.sampled_from([None, 2, "\t"]),
)
def test_setting_and_removing_do_what_a_dictionary_does(whole, outer, inner, value, indent):
    text = json.dumps(whole, indent=indent, ensure_ascii=False)
    made = with_member(text, [outer, inner], value)
    expected = json.loads(text)
    expected.setdefault(outer, {})[inner] = value
    assert json.loads(made) == expected
    del expected[outer][inner]
    assert json.loads(without_member(made, [outer, inner])) == expected
