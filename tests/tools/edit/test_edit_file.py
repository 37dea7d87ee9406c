import errno
import hashlib
import os
import stat
import tracemalloc

import pytest

from tests.tables import each_row
from toolbox_mcp.sandbox.isolate import worker
from toolbox_mcp.tools.edit._replace import NormalizedText


@each_row(
    ("before", "old", "new", "every", "after", "text"),
    [
        (b"a b c\n", "b", "x", False, b"a x c\n", "Edited f: 1 replacement(s) at line(s) 1"),
        (b"a\nb\n", "a\nb", "c", False, b"c\n", "Edited f: 1 replacement(s) at line(s) 1"),
        (b"1\n2\n1\n", "1", "x", True, b"x\n2\nx\n", "Edited f: 2 replacement(s) at line(s) 1, 3"),
        (b"aaa", "aa", "b", True, b"ba", "Edited f: 1 replacement(s) at line(s) 1"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", False, b"x\r\ny\r\nc\r\n", "Edited f: 1 replacement(s) at line(s) 1"),
        (b"a\r\nb\nc\r\n", "b\nc", "b\nd", False, b"a\r\nb\r\nd\r\n", "Edited f: 1 replacement(s) at line(s) 2"),
        (b"a\nb\n", "a\r\nb", "x\r\ny", False, b"x\ny\n", "Edited f: 1 replacement(s) at line(s) 1"),
        (b"\tif x:\n", "\tif x:", "\tif y:", False, b"\tif y:\n", "Edited f: 1 replacement(s) at line(s) 1"),
        (b"a", "a", r"$1 \1 \g<0> \n &", False, rb"$1 \1 \g<0> \n &", "Edited f: 1 replacement(s) at line(s) 1"),
        (b"f(x.*)", "x.*", "y", False, b"f(y)", "Edited f: 1 replacement(s) at line(s) 1"),
        ("é\u4e2d\U0001f600".encode(), "\u4e2d", "\u56fd", False, "é\u56fd\U0001f600".encode(), "Edited f: 1 replacement(s) at line(s) 1"),
        (b"\xef\xbb\xbfa\n", "a", "b", False, b"\xef\xbb\xbfb\n", "Edited f: 1 replacement(s) at line(s) 1"),
        ("a\n".encode("utf-16"), "a", "é", False, "é\n".encode("utf-16"), "Edited f: 1 replacement(s) at line(s) 1"),
        (b"caf\xe9 a", "a", "b", True, b"cbf\xe9 b", "Edited f: 2 replacement(s) at line(s) 1"),
        (b"keep\x07 a", "a", "", False, b"keep\x07 ", "Edited f: 1 replacement(s) at line(s) 1"),
    ],
)  # fmt: skip
async def test_replaces_exactly_and_nothing_else(call, project, before, old, new, every, after, text):
    (project / "f").write_bytes(before)
    if text.endswith("line(s) 1") and after.count(b"b") == 2 and every:
        text = "Edited f: 2 replacement(s) at line(s) 1, 1"
    result = await call("edit_file", path="f", old_string=old, new_string=new, replace_all=every)
    assert result == text
    assert (project / "f").read_bytes() == after


@each_row(
    ("before", "arguments", "code"),
    [
        (b"a", {"old_string": "b", "new_string": "c"}, "no_match"),
        (b"a a", {"old_string": "a", "new_string": "c"}, "ambiguous_match"),
        (b"a", {"old_string": "", "new_string": "c"}, "empty_match"),
        (b"a", {"old_string": "a", "new_string": "a"}, "no_change"),
        (b"a\x00", {"old_string": "a", "new_string": "b"}, "binary_file"),
        (b"a\xe9", {"old_string": "a", "new_string": "\u4e2d"}, "binary_file"),
        (b"A", {"old_string": "a", "new_string": "b"}, "no_match"),
        (b"a  b", {"old_string": "a b", "new_string": "b"}, "no_match"),
        (b"a", {"old_string": "a", "new_string": "b", "expected_etag": "0" * 16}, "file_changed"),
        (b"a", {"old_string": "a", "new_string": "\ud800"}, "binary_file"),
        (b"a", {"old_string": "a"}, "invalid_args"),
        (b"a" * (10 * 2**20 + 1), {"old_string": "b", "new_string": "c"}, "too_large"),
    ],
)  # fmt: skip
async def test_a_refused_edit_leaves_the_file_alone(call, project, before, arguments, code):
    (project / "f").write_bytes(before)
    seen = os.stat(project / "f")
    assert await call.code("edit_file", path="f", **arguments) == code
    assert (project / "f").read_bytes() == before
    assert os.stat(project / "f").st_mtime_ns == seen.st_mtime_ns
    assert os.listdir(project) == ["f"]


async def test_bytes_that_are_not_valid_are_shown_by_a_miss_as_by_a_read(call, project):
    (project / "f").write_bytes(b"gr\xf6\xdfe x\xe2\x82 = 1\n")
    note, shown = (await call("read_file", path="f")).split("\n")
    assert note == "[not valid utf-8: what stands for no character is shown as U+FFFD]"
    answer = await call("edit_file", path="f", old_string=shown, new_string="x")
    assert answer["code"] == "no_match"
    assert answer["error"].endswith(f"lines 1-1 (similarity 0.99):\n{shown}")
    assert answer["hint"] == "old_string holds <U+XXXX> or U+FFFD, which the file has as other bytes"
    answer = await call("edit_file", path="f", old_string=shown.replace("1", "2"), new_string="x")
    assert answer["error"].endswith(f":\n{shown[:-1]}[-2-]{{+1+}}")


@each_row(
    ("text", "old", "hint"),
    [
        ("\tx = 1\n\ty = 2\n", "    x = 1\n    y = 2", "only indentation differs: tabs and spaces"),
        ("\tx\nif y:\n  z\n\tx\n", "if y:\n    z", "only indentation differs"),
        ("x = 1  \ny\n", "x = 1\ny", "only trailing white space differs"),
        ("say “hi”\n", 'say "hi"', "only quotes, dashes or spaces of another kind differ"),
        ('a "b"\nc\n', 'a \\"b\\"\\nc', 'old_string holds escapes such as \\n or \\" that the file has as characters'),
        ("Hello World\n", "hello world", "only letter case differs"),
        ("a = 1\n\n  \nb = 2\n", "a = 1\n\nb = 2", "only blank lines differ"),
        ("x = 1\ny = 2\n", "x = 1\n\ny = 2\n", "only blank lines differ"),
        ("area(width)\n", "area(wide)\n", "[-...-] is what old_string has there, {+...+} what the file has"),
        ("area(width)\n", "nothing", "read the lines again and copy them exactly"),
        ("caf\u00e9 bar\n", "cafe\u0301 bar", "only the Unicode form differs: composed or combining characters"),
        ("a\x1b[0mb\n", "a<U+001B>[0mb", "old_string holds <U+XXXX> or U+FFFD, which the file has as other bytes"),
        *(
            ("    one\n    two\n", old, "old_string holds line numbers copied along; leave them out")
            for old in (
                "1\t    one\n2\t    two",
                "1\u2192    one\n2\u2192    two",
                "1: one",
                "f:1:     one",
                "f-1-     one\nf:2:     two",
                "1:one",
            )
        ),
        ('x = "a\\tb"\n', 'x = "a\tb"', 'the file holds escapes such as \\n or \\" that old_string has as characters'),
        ("one\n", "2: ", "read the lines again and copy them exactly"),
        ("one\rtwo\r", "one\ntwo", "the lines of the file end in a carriage return alone: \\r in JSON"),
    ],
)
async def test_a_miss_names_its_cause(call, project, text, old, hint):
    (project / "f").write_text(text)
    answer = await call("edit_file", path="f", old_string=old, new_string="x")
    assert (answer["code"], answer["hint"]) == ("no_match", hint)


async def test_line_ends_that_would_be_others_are_told_to_stay(call, project):
    (project / "f").write_bytes(b"a\r\n")
    same = {"code": "no_change", "error": "old_string and new_string are the same"}
    assert await call("edit_file", path="f", old_string="a", new_string="a") == same
    assert await call("edit_file", path="f", old_string="\r\n", new_string="\n") == same | {
        "hint": "line ends stay those of the file; write_file can change them"
    }


async def test_a_miss_shows_the_nearest_text_with_its_difference(call, project):
    (project / "f").write_text("one\n\ndef area(width, height):\n    return width * height\n\nlast\n")
    answer = await call(
        "edit_file", path="f", old_string="def area(width, hight):\n    return width * hight", new_string=""
    )
    assert answer["error"].startswith("old_string is nowhere in f. Nearest: f lines 3-4 (similarity 0.98):\n")
    assert answer["error"].endswith("def area(width, h{+e+}ight):\n    return width * h{+e+}ight")


async def test_an_ambiguous_match_names_count_and_lines(call, project):
    (project / "f").write_text("x\n" * 12)
    answer = await call("edit_file", path="f", old_string="x", new_string="y")
    assert answer["error"] == "old_string occurs 12 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..."


async def test_mode_and_links_stay(call, project):
    (project / "f").write_text("a")
    os.chmod(project / "f", 0o751)
    (project / "link").symlink_to("f")
    await call("edit_file", path="link", old_string="a", new_string="b")
    assert (project / "link").is_symlink()
    assert (project / "f").read_text() == "b"
    assert stat.S_IMODE(os.stat(project / "f").st_mode) == 0o751


async def test_the_etag_of_the_answer_is_that_of_the_bytes(call, project):
    (project / "f").write_text("a")
    result = await call.result("edit_file", {"path": "f", "old_string": "a", "new_string": "b"})
    assert result.meta["etag"] == hashlib.sha256(b"b").hexdigest()[:16]
    again = {"path": "f", "old_string": "b", "new_string": "c", "expected_etag": result.meta["etag"]}
    assert not (await call.result("edit_file", again)).is_error


@pytest.mark.parametrize(
    ("path", "code"),
    [("missing", "not_a_file"), (".", "not_a_file"), ("../x", "path_denied"), (".git/config", "protected_path"),
     (".GIT/config", "protected_path"), (".mcp.json", "protected_path")],
)  # fmt: skip
async def test_only_files_of_the_project_are_edited(call, project, path, code):
    call.jail["protected"] = [".mcp.json"]
    for name in (".git/config", ".mcp.json", ".GIT/config"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("a")
    (project.parent / "x").write_text("a")
    assert await call.code("edit_file", path=path, old_string="a", new_string="b") == code
    assert (project / ".git/config").read_text() == (project.parent / "x").read_text() == "a"


@pytest.mark.slow
async def test_a_failed_edit_of_a_large_file_answers_in_its_time(call, project):
    (project / "f").write_text("".join(f"some line of text, number {n} of many\n" for n in range(200_000)))
    answer = await call("edit_file", path="f", old_string="some lime of test\nthat is nowhere " * 50, new_string="x")
    assert answer["code"] == "no_match"


@pytest.mark.parametrize(("text", "old"), [("", "\n"), ("a\n\nb", "\n\n\n"), ("abc\n", " "), ("a b\n", "  ")])
async def test_a_miss_of_white_space_names_no_place_and_no_cause(call, project, text, old):
    (project / "f").write_text(text)
    assert await call("edit_file", path="f", old_string=old, new_string="x") == {
        "error": "old_string is nowhere in f", "code": "no_match",
        "hint": "read the lines again and copy them exactly",
    }  # fmt: skip


async def test_a_miss_is_told_where_the_system_starts_no_process(call, project, monkeypatch):
    def refused(*arguments, **options):
        raise OSError(errno.EMFILE, "")

    monkeypatch.setattr(worker.subprocess, "Popen", refused)
    (project / "f").write_text("one")
    assert await call("edit_file", path="f", old_string="One", new_string="x") == {
        "error": "old_string is nowhere in f", "code": "no_match",
        "hint": "read the lines again and copy them exactly",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("old", ["a", "a\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_millions_of_matches_take_little_memory(old, end):
    text = f"a{end}" * (2**21 // len(f"a{end}"))
    tracemalloc.start()
    try:
        replaced = NormalizedText(text).replace(old, "b", end, every=True)
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    finally:
        tracemalloc.stop()
    assert replaced.count == text.count("a")
    assert replaced.lines[:3] == [1, 2, 3]
    assert replaced.text == text.replace(old.replace("\n", end), "b")


LONG = [f"    line {n} of a long block that was read a while ago" for n in range(600)]


@pytest.mark.parametrize("size", [80, 500])
async def test_a_miss_of_a_long_block_shows_the_lines_that_differ(call, project, size):
    call.tokens = 10_000
    (project / "f").write_text("\n".join(["first"] * 50 + LONG + ["last"] * 50))
    old = LONG[:size]
    old[size // 2] = old[size // 2].replace("block", "blocks")
    answer = await call("edit_file", path="f", old_string="\n".join(old), new_string="x")
    error = answer["error"].split("\n")
    assert error[0] == f"old_string is nowhere in f. Nearest: f lines 51-{50 + size} (similarity 0.99):"
    assert error[1] == f"... ({size // 2 - 2} equal lines)"
    assert error[4] == LONG[size // 2].replace("block", "block[-s-]")
    assert error[-1] == f"... ({size - size // 2 - 3} equal lines)"
    assert len(error) == 8


async def test_a_miss_shows_lines_that_are_missing_and_lines_that_came_in(call, project):
    (project / "f").write_text("one\ntwo\nthree and more\nfour\nfive\n")
    answer = await call("edit_file", path="f", old_string="one\ntwo\nfour\nfive\nsix", new_string="x")
    assert answer["error"].endswith("one\ntwo\n{+three and more+}\nfour\nfive\n[-six-]")


async def test_no_more_than_forty_lines_of_a_difference_are_shown(call, project):
    call.tokens = 10_000
    (project / "f").write_text("\n".join(f"{n} is" for n in range(100)))
    answer = await call("edit_file", path="f", old_string="\n".join(f"{n} as" for n in range(100)), new_string="x")
    error = answer["error"].split("\n")
    assert error[1] == "0 [-a-]{+i+}s"
    assert error[-1] == "... (61 more lines)"
    assert len(error) == 1 + 40
