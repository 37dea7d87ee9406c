import hashlib
import os
import tracemalloc

import pytest

from tests.tables import each_row
from toolbox_mcp.tools.edit._lines import Document

INSERT, REPLACE, DELETE = ({"operation": name} for name in ("insert", "replace", "delete"))


@each_row(
    ("before", "arguments", "after", "count", "at", "added", "removed"),
    [
        (b"a\nb\n", INSERT | {"lines": ["x"]}, b"a\nb\nx\n", 1, [3], 1, 0),
        (b"a\nb\n", INSERT | {"lines": ["x"], "position": "start"}, b"x\na\nb\n", 1, [1], 1, 0),
        (b"a\nb\n", INSERT | {"lines": ["x", "y"], "position": "before", "match_lines": ["b"]}, b"a\nx\ny\nb\n", 1, [2], 2, 0),
        (b"a\nb\n", INSERT | {"lines": ["x"], "position": "after", "match_lines": ["a"]}, b"a\nx\nb\n", 1, [2], 1, 0),
        (b"a\nb", INSERT | {"lines": ["x"]}, b"a\nb\nx", 1, [3], 1, 0),
        (b"a\nb", INSERT | {"lines": ["x"], "position": "after", "match_lines": ["b"]}, b"a\nb\nx", 1, [3], 1, 0),
        (b"", INSERT | {"lines": ["x", "y"]}, b"x\ny\n", 1, [1], 2, 0),
        (b"\n", INSERT | {"lines": ["x"]}, b"\nx\n", 1, [2], 1, 0),
        (b"a\r\nb\r\n", INSERT | {"lines": ["x"], "position": "start"}, b"x\r\na\r\nb\r\n", 1, [1], 1, 0),
        (b"a\r\nb\r\nc\n", INSERT | {"lines": ["x"]}, b"a\r\nb\r\nc\nx\r\n", 1, [4], 1, 0),
        (b"a\r\nb", INSERT | {"lines": ["x"]}, b"a\r\nb\r\nx", 1, [3], 1, 0),
        (b"a\n", INSERT | {"lines": ["x\ny\r\nz"]}, b"a\nx\ny\nz\n", 1, [2], 3, 0),
        (b"a\n", INSERT | {"lines": ["x\n"]}, b"a\nx\n", 1, [2], 1, 0),
        (b"a\n", INSERT | {"lines": [""]}, b"a\n\n", 1, [2], 1, 0),
        (b"a\n", INSERT | {"lines": ["\t  x  "]}, b"a\n\t  x  \n", 1, [2], 1, 0),
        (b"  a\t\nb\n", REPLACE | {"match_lines": ["a"], "lines": ["x"]}, b"x\nb\n", 1, [1], 1, 1),
        (b"a\nb\nc\n", REPLACE | {"match_lines": [" a", "b "], "lines": ["x"]}, b"x\nc\n", 1, [1], 1, 2),
        (b"a\nb\na\n", REPLACE | {"match_lines": ["a"], "lines": ["x", "y"], "expected_count": 2}, b"x\ny\nb\nx\ny\n", 2, [1, 3], 4, 2),
        (b"a\nb\nc", REPLACE | {"match_lines": ["c"], "lines": ["x", "y"]}, b"a\nb\nx\ny", 1, [3], 2, 1),
        (b"1\na\n2\na\n", REPLACE | {"match_lines": ["a"], "before_lines": ["2"], "lines": ["x"]}, b"1\na\n2\nx\n", 1, [4], 1, 1),
        (b"a\n1\na\n2\n", REPLACE | {"match_lines": ["a"], "after_lines": ["2"], "lines": ["x"]}, b"a\n1\nx\n2\n", 1, [3], 1, 1),
        (b"a\nb\nc\n", DELETE | {"match_lines": ["b"]}, b"a\nc\n", 1, [2], 0, 1),
        (b"a\nb\n", DELETE | {"match_lines": ["b"]}, b"a\n", 1, [2], 0, 1),
        (b"a\nb", DELETE | {"match_lines": ["b"]}, b"a", 1, [2], 0, 1),
        (b"a\r\nb", DELETE | {"match_lines": ["b"]}, b"a", 1, [2], 0, 1),
        (b"a\n", DELETE | {"match_lines": ["a"]}, b"", 1, [1], 0, 1),
        (b"a\n\n\n", DELETE | {"match_lines": [""], "expected_count": 2}, b"a\n", 2, [2, 3], 0, 2),
        (b"a\r\nb\nc\r\n", DELETE | {"match_lines": ["b"]}, b"a\r\nc\r\n", 1, [2], 0, 1),
        (b"a\nb\n", REPLACE | {"match_lines": ["a\nb"], "lines": ["x"]}, b"x\n", 1, [1], 1, 2),
        (b"a\rb\nc\n", DELETE | {"match_lines": ["c"]}, b"a\rb\n", 1, [2], 0, 1),
        (b"\xef\xbb\xbfa\nb\n", DELETE | {"match_lines": ["a"]}, b"\xef\xbb\xbfb\n", 1, [1], 0, 1),
        ("a\nb\n".encode("utf-16"), REPLACE | {"match_lines": ["b"], "lines": ["é"]}, "a\né\n".encode("utf-16"), 1, [2], 1, 1),
        (b"\xe9\nb\n", REPLACE | {"match_lines": ["b"], "lines": ["x"]}, b"\xe9\nx\n", 1, [2], 1, 1),
    ],
)  # fmt: skip
async def test_edits_whole_lines_and_nothing_else(call, project, before, arguments, after, count, at, added, removed):
    (project / "f").write_bytes(before)
    result = await call.result("edit_lines", {"path": "f"} | arguments)
    assert not result.is_error, result
    assert (project / "f").read_bytes() == after
    etag = hashlib.sha256(after).hexdigest()[:16]
    assert result.structured_content == {
        "path": "f", "operation": arguments["operation"], "count": count, "at_lines": at,
        "lines_added": added, "lines_removed": removed, "etag": etag,
    }  # fmt: skip
    lines = ", ".join(map(str, at))
    assert result.content[0].text == f"{arguments['operation']} f: {count} at line(s) {lines}"
    assert result.meta["etag"] == etag


@each_row(
    ("arguments", "code"),
    [
        (REPLACE | {"match_lines": ["z"], "lines": ["x"]}, "no_match"),
        (REPLACE | {"match_lines": ["a"], "lines": ["x"]}, "ambiguous_match"),
        (REPLACE | {"match_lines": ["a"], "lines": ["x"], "expected_count": 3}, "ambiguous_match"),
        (REPLACE | {"match_lines": ["b"], "lines": ["x"], "expected_count": 2}, "ambiguous_match"),
        (REPLACE | {"match_lines": ["b"], "lines": ["x"], "before_lines": ["z"]}, "no_match"),
        (REPLACE | {"match_lines": ["c", "c"], "lines": ["x"], "expected_count": 2}, "ambiguous_match"),
        (DELETE | {"match_lines": ["A"]}, "no_match"),
        (INSERT | {"lines": ["x"], "position": "after", "match_lines": ["a"]}, "ambiguous_match"),
        (INSERT | {"lines": ["x"], "position": "before", "match_lines": ["z"]}, "no_match"),
        (REPLACE | {"match_lines": ["b"], "lines": ["b"]}, "no_change"),
        (REPLACE | {"match_lines": [], "lines": ["x"]}, "invalid_args"),
        (DELETE | {"match_lines": []}, "invalid_args"),
        (REPLACE | {"match_lines": ["b"]}, "invalid_args"),
        (REPLACE | {"match_lines": ["b"], "lines": []}, "invalid_args"),
        (REPLACE | {"lines": ["x"]}, "invalid_args"),
        (DELETE, "invalid_args"),
        (DELETE | {"match_lines": ["b"], "lines": ["x"]}, "invalid_args"),
        (DELETE | {"match_lines": ["b"], "position": "start"}, "invalid_args"),
        (DELETE | {"match_lines": ["b"], "expected_count": 0}, "invalid_args"),
        (INSERT, "invalid_args"),
        (INSERT | {"lines": []}, "invalid_args"),
        (INSERT | {"lines": ["x"], "position": "before"}, "invalid_args"),
        (INSERT | {"lines": ["x"], "match_lines": ["b"]}, "invalid_args"),
        (INSERT | {"lines": ["x"], "before_lines": ["b"]}, "invalid_args"),
        ({"operation": "append", "lines": ["x"]}, "invalid_args"),
        (INSERT | {"lines": "x"}, "invalid_args"),
        (INSERT | {"lines": ["x"], "expected_etag": "0" * 16}, "file_changed"),
        (INSERT | {"lines": ["x" * 11 * 2**20]}, "too_large"),
    ],
)
async def test_a_refused_edit_leaves_the_file_alone(call, project, arguments, code):
    data = b"a\nb\na\nc\nc\nc\n"
    (project / "f").write_bytes(data)
    before = os.stat(project / "f")
    assert await call.code("edit_lines", path="f", **arguments) == code
    assert (project / "f").read_bytes() == data
    assert os.path.samestat(os.stat(project / "f"), before)
    assert os.stat(project / "f").st_mtime_ns == before.st_mtime_ns
    assert os.listdir(project) == ["f"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (DELETE | {"match_lines": ["a"]}, "match_lines occurs 2 times, at lines 1, 3; expected 1"),
        (DELETE | {"match_lines": ["c", "c"]}, "match_lines occurs 2 times, at lines 4, 5, and these overlap"),
        (
            DELETE | {"match_lines": ["b"], "after_lines": ["c"]},
            "match_lines stands at line(s) 2, but not between before_lines and after_lines",
        ),
        (
            DELETE | {"match_lines": ["b", "aa"]},
            "match_lines is nowhere in f. Nearest: f lines 2-3 (similarity 0.86):\nb\na[-a-]",
        ),
    ],
)
async def test_says_where_the_lines_are(call, project, arguments, error):
    (project / "f").write_bytes(b"a\nb\na\nc\nc\nc\n")
    assert (await call("edit_lines", path="f", **arguments))["error"] == error


@each_row(
    ("match_lines", "hint"),
    [
        (["b c"], "whole lines are compared, without the white space around them"),
        (["  a b"], "whole lines are compared, without the white space around them"),
        (["1\ta b c d"], "match_lines holds line numbers copied along; leave them out"),
        (["A B C D"], "only letter case differs"),
    ],
)
async def test_a_miss_names_its_cause(call, project, match_lines, hint):
    (project / "f").write_text("a b c d\n")
    answer = await call("edit_lines", path="f", **DELETE, match_lines=match_lines)
    assert (answer["code"], answer["hint"]) == ("no_match", hint)


@pytest.mark.parametrize("match_lines", [["a"], ["b", "b"]])
async def test_what_an_insertion_is_advised_of_is_taken(call, project, match_lines):
    (project / "f").write_text("a\na\nb\nb\nb\n")
    answer = await call(
        "edit_lines", path="f", operation="insert", lines=["x"], position="after", match_lines=match_lines
    )
    assert (answer["code"], answer["hint"]) == ("ambiguous_match", "add lines to match_lines until it is unique")


async def test_binary_and_missing_files_are_refused(call, project):
    (project / "f").write_bytes(b"a\x00\n")
    (project / "lossy").write_bytes(b"\xe9\n")
    arguments = INSERT | {"lines": ["\u4e2d"]}
    assert await call.code("edit_lines", path="f", **arguments) == "binary_file"
    assert await call.code("edit_lines", path="lossy", **arguments) == "binary_file"
    assert await call.code("edit_lines", path="missing", **arguments) == "not_a_file"
    assert await call.code("edit_lines", path=".", **arguments) == "not_a_file"


@pytest.mark.slow
async def test_a_block_that_repeats_a_million_times_answers(call, project):
    (project / "f").write_bytes(b"\n" * 10 * 2**20)
    assert await call.code("edit_lines", path="f", **DELETE, match_lines=[""] * 1000) == "ambiguous_match"


async def test_many_blocks_times_long_lines_are_too_large_before_they_are_put_together(call, project):
    data = b"a\n" * 50_000
    (project / "f").write_bytes(data)
    more = {"match_lines": ["a"], "expected_count": 50_000}
    assert await call.code("edit_lines", path="f", **REPLACE, lines=["x" * 10**6], **more) == "too_large"
    assert (project / "f").read_bytes() == data
    answer = await call.result("edit_lines", {"path": "f", "lines": ["xy"], **REPLACE, **more})
    assert answer.content[0].text.startswith("replace f: 50000 at line(s) 1, 2, 3,")
    assert (project / "f").read_bytes() == b"xy\n" * 50_000


@pytest.mark.slow
def test_a_file_of_line_ends_alone_takes_little_memory():
    tracemalloc.start()
    try:
        text = "\n" * 2**20
        edited = Document(text, "\n").insert(5, ["x"])
        assert tracemalloc.get_traced_memory()[1] < 40 * 2**20
    finally:
        tracemalloc.stop()
    assert edited.text == text[:5] + "x\n" + text[5:]


@pytest.mark.parametrize("expected", [1, 100_000, 100_001])
async def test_more_occurrences_than_are_counted_are_never_taken_for_all(call, project, expected):
    before = "a\n" * 100_001
    (project / "f").write_text(before)
    answer = await call("edit_lines", path="f", operation="delete", match_lines=["a"], expected_count=expected)
    assert answer["code"] == "ambiguous_match"
    assert answer["error"].startswith("match_lines occurs more than 100000 times, at lines 1, 2, 3, ")
    assert (project / "f").read_text() == before
