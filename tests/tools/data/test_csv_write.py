import csv
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("arguments", "content", "count"),
    [
        ({"rows": [["a", "b"], [1, None]]}, "a,b\n1,\n", 2),
        ({"rows": [[1, 2]], "headers": ["a", "b"]}, "a,b\n1,2\n", 1),
        ({"rows": [{"a": 1, "b": "x,y"}, {"c": True, "a": None}]}, 'a,b,c\n1,"x,y",\n,,true\n', 2),
        ({"rows": [{"a": 1, "b": 2}], "headers": ["b", "z"]}, "b,z\n2,\n", 1),
        ({"rows": [["=1+1", 'say "x"', "a\nb", "\r", " pad "]]}, '=1+1,"say ""x""","a\nb","\r", pad \n', 1),
        ({"rows": [[""], [None]]}, '""\n""\n', 2),
        ({"rows": [], "headers": ["a"]}, "a\n", 0),
        ({"rows": []}, "", 0),
        ({"rows": [["é", 1.5, -3]]}, "é,1.5,-3\n", 1),
    ],
)
async def test_rows_are_written(call, project, arguments, content, count):
    assert await call("csv_write", path="new/a.csv", **arguments) == f"Wrote {count} rows to new/a.csv"
    assert (project / "new/a.csv").read_bytes() == content.encode()


async def test_what_are_no_rows_is_refused_and_nothing_is_written(call, project):
    table = [
        1,
        "x",
        None,
        {},
        [1],
        ["ab"],
        [[1], {"a": 1}],
        [{"a": 1}, [1]],
        [{"a": [1]}],
        [[{}]],
        [[[1]]],
        [None],
        [["\ud800"]],
    ]
    failed = [rows for rows in table if await call.code("csv_write", path="a.csv", rows=rows) != "bad_rows"]
    assert failed == []
    assert list(project.iterdir()) == []


async def test_it_replaces_and_undo_brings_the_old_file_back(call, project):
    (project / "a.csv").write_text("old\n")
    await call("csv_write", path="a.csv", rows=[["new"]])
    assert (project / "a.csv").read_text() == "new\n"
    await call("undo")
    assert (project / "a.csv").read_text() == "old\n"


async def test_places_are_guarded(call, project):
    (project / "folder").mkdir()
    (project / "a.csv").write_text("old\n")
    assert await call.code("csv_write", path="folder", rows=[]) == "is_a_directory"
    assert await call.code("csv_write", path=".git/x.csv", rows=[]) == "protected_path"
    assert await call.code("csv_write", path="../x.csv", rows=[]) == "path_denied"
    assert await call.code("csv_write", path="a.csv", rows=[], expected_etag="0" * 16) == "file_changed"
    assert (project / "a.csv").read_text() == "old\n"


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(rows=st.lists(st.lists(cells, min_size=1, max_size=4), max_size=6))
async def test_what_is_written_is_read_back(call, project, rows):
    await call("csv_write", path="a.csv", rows=rows)
    text = (project / "a.csv").read_bytes().decode()
    assert list(csv.reader(io.StringIO(text, newline=""))) == rows
