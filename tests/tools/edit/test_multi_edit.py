import json
import os

import pytest


def edit(old, new, **more):
    return {"old_string": old, "new_string": new} | more


@pytest.mark.parametrize(
    ("before", "edits", "after", "text"),
    [
        (b"a b\n", [edit("a", "x"), edit("b", "y")], b"x y\n", "Edited f: 2 edits, 2 replacements"),
        (b"a\n", [edit("a", "b"), edit("b", "c")], b"c\n", "Edited f: 2 edits, 2 replacements"),
        (b"a a\n", [edit("a", "b", replace_all=True)], b"b b\n", "Edited f: 1 edits, 2 replacements"),
        (b"a\r\nb\n", [edit("a\nb", "1\n2\n3")], b"1\n2\n3\n", "Edited f: 1 edits, 1 replacements"),
        (b"a\r\nb\r\nc\n", [edit("b", "1\n2")], b"a\r\n1\r\n2\r\nc\n", "Edited f: 1 edits, 1 replacements"),
        (b"1", [edit("1", r"\1 $1")], rb"\1 $1", "Edited f: 1 edits, 1 replacements"),
    ],
)
async def test_edits_build_on_each_other(call, project, before, edits, after, text):
    (project / "f").write_bytes(before)
    assert await call("multi_edit", path="f", edits=edits) == text
    assert (project / "f").read_bytes() == after


@pytest.mark.parametrize(
    ("edits", "code", "error"),
    [
        ([edit("a", "x"), edit("nowhere", "y")], "no_match", "edit 2 of 2: old_string is nowhere in f"),
        ([edit("a", "x"), edit("b", "y")], "ambiguous_match", "edit 2 of 2: old_string occurs 2 times, at lines 2, 3"),
        ([edit("", "x")], "empty_match", "edit 1 of 1: old_string is empty"),
        ([edit("a", "x"), edit("x", "x")], "no_change", "edit 2 of 2: old_string and new_string are the same"),
        ([edit("a", "x"), edit("x", "a")], "no_change", "f would stay as it is"),
        ([edit("a", "x"), edit("a", "y")], "no_match", "edit 2 of 2: old_string is nowhere in f"),
        ([], "bad_edits", "edits: expected a list of at least one edit"),
        ({}, "bad_edits", "edits: expected a list of at least one edit"),
        ("x", "bad_edits", "edits: expected a list of at least one edit"),
        (5, "bad_edits", "edits: expected a list of at least one edit"),
        (["a"], "invalid_args", "edits.0: expected an object with old_string and new_string"),
        ([edit("a", "b"), {"old_string": "a"}], "invalid_args", "edits.1.new_string: required, but missing"),
        ([edit("a", 5)], "invalid_args", "edits.0.new_string: expected a string"),
        ([edit("a", "b", every=True)], "invalid_args", "edits.0.every: no such field"),
        ([edit("a", "b", replace_all=7)], "invalid_args", "edits.0.replace_all: expected a boolean"),
    ],
)
async def test_one_bad_edit_leaves_the_file_alone(call, project, edits, code, error):
    (project / "f").write_bytes(b"a\nb\nb\n")
    before = os.stat(project / "f")
    answer = await call("multi_edit", path="f", edits=edits)
    assert (answer["code"], answer["error"].split(". Nearest")[0]) == (code, error)
    assert (project / "f").read_bytes() == b"a\nb\nb\n"
    assert os.path.samestat(os.stat(project / "f"), before)
    assert os.stat(project / "f").st_mtime_ns == before.st_mtime_ns
    assert os.listdir(project) == ["f"]


async def test_edits_may_come_as_json_and_a_switch_as_text(call, project):
    (project / "f").write_bytes(b"a a")
    edits = json.dumps([edit("a", "b", replace_all="true"), edit("b b", "c", replace_all=None)])
    assert await call("multi_edit", path="f", edits=edits) == "Edited f: 2 edits, 3 replacements"
    assert (project / "f").read_bytes() == b"c"
    assert await call("multi_edit", path="f", edits=[json.dumps(edit("c", "d"))]) == (
        "Edited f: 1 edits, 1 replacements"
    )
    assert (project / "f").read_bytes() == b"d"


async def test_missing_edits_are_invalid(call, project):
    (project / "f").write_bytes(b"a")
    assert await call.code("multi_edit", path="f") == "invalid_args"


async def test_a_miss_shows_the_text_as_the_former_edits_left_it(call, project):
    (project / "f").write_text("def area(width, height):\n    return width * height\n")
    edits = [edit("width", "w", replace_all=True), edit("def area(w, hight):", "def area():")]
    answer = await call("multi_edit", path="f", edits=edits)
    assert answer["error"].endswith("def area(w, h{+e+}ight):")


@pytest.mark.parametrize(
    ("before", "arguments", "code"),
    [
        (b"a\xe9", {"edits": [edit("a", "\u4e2d")]}, "binary_file"),
        (b"a\x00", {"edits": [edit("a", "b")]}, "binary_file"),
        (b"a", {"edits": [edit("a", "b")], "expected_etag": "0" * 16}, "file_changed"),
        (b"a", {"edits": [edit("a", "b" * 11 * 2**20)]}, "too_large"),
        (b"a" * 1000, {"edits": [edit("a", "a" * 100_000, replace_all=True)]}, "too_large"),
    ],
)
async def test_answers_as_edit_file_does(call, project, before, arguments, code):
    (project / "f").write_bytes(before)
    assert await call.code("multi_edit", path="f", **arguments) == code
    assert (project / "f").read_bytes() == before


async def test_the_etag_of_the_answer_allows_the_next_call(call, project):
    (project / "f").write_bytes(b"a")
    result = await call.result("multi_edit", {"path": "f", "edits": [edit("a", "b")]})
    again = {"path": "f", "edits": [edit("b", "c")], "expected_etag": result.meta["etag"]}
    assert not (await call.result("multi_edit", again)).is_error
