import json

from hypothesis import given
from hypothesis import strategies as st

from toolbox_mcp.tools.data._answer import answered
from toolbox_mcp.tools.data._json import located
from toolbox_mcp.tools.data._query import evaluated, parsed, shown_place

keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | keys
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4))


def places(value, place=()):
    yield place, value
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from places(member, (*place, key))


def written(place):
    return "$" + "".join(f"[{json.dumps(part)}]" if isinstance(part, str) else f"[{part}]" for part in place)


@given(value=values)
def test_a_query_leads_where_plain_access_does(value):
    for place, wanted in places(value):
        for query in (written(place), shown_place(place) if place and len(str(place)) < 200 else "$"):
            if query != "$" or not place:
                assert evaluated(value, parsed(query), query).value == wanted


@given(value=values)
def test_an_answer_is_the_value_again_and_laid_out_as_by_the_library(value):
    text, _ = answered("json", json.dumps(value).encode(), None, 0)
    body = text if isinstance(value, dict) else text.partition("\n")[2]
    assert json.loads(body) == value
    plain = json.dumps(value, indent=2, ensure_ascii=False)
    if plain.isascii() and "\x7f" not in plain:
        assert body == plain


@given(value=values, indent=st.sampled_from([None, 1, 3]))
def test_a_value_is_located_where_it_begins(value, indent):
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    lines = text.split("\n")
    for place, wanted in places(value):
        line, column = located(text, place)
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        assert json.JSONDecoder().raw_decode(rest)[0] == wanted


@given(rows=st.lists(st.dictionaries(keys, scalars, max_size=3), max_size=5), key=keys)
def test_each_element_is_what_a_comprehension_gives(rows, key):
    query = f"[][{json.dumps(key)}]"
    assert evaluated(rows, parsed(query), query).value == [row.get(key) for row in rows]
