import base64
import hashlib
import json
import os
import re
import socket
import struct
import threading

import pytest

from tests.tables import each_row
from toolbox_mcp.safety.path_jail.roots import JailedPath
from toolbox_mcp.server.budget.tokenizers import tokenizer_for
from toolbox_mcp.tools.read import _line_range as stretch

TEN = "".join(f"line {n}\n" for n in range(1, 11))


@pytest.fixture
def ten(project):
    (project / "ten.txt").write_text(TEN)


@each_row(
    ("arguments", "answer"),
    [
        ({}, TEN[:-1]),
        ({"start_line": 2, "end_line": 3}, "line 2\nline 3"),
        ({"start_line": 9}, "line 9\nline 10"),
        ({"end_line": 1}, "line 1"),
        ({"start_line": 10, "end_line": 99}, "line 10"),
        ({"start_line": "2", "end_line": 2.0}, "line 2"),
        ({"tail": 2}, "line 9\nline 10"),
        ({"tail": 99}, TEN[:-1]),
        ({"tail": 1, "start_line": 3}, "line 10"),
        ({"tail": 0}, TEN[:-1]),
        ({"tail": -5}, TEN[:-1]),
        ({"start_line": 2, "end_line": 3, "numbered": True}, "2\tline 2\n3\tline 3"),
        ({"tail": 1, "numbered": True}, "10\tline 10"),
        ({"start_match": ["line 8"]}, "8\tline 8\n9\tline 9\n10\tline 10"),
        ({"end_match": ["line 1"]}, "1\tline 1"),
        ({"start_match": ["  line 2 "], "end_match": ["line 3", "line 4"]}, "2\tline 2\n3\tline 3\n4\tline 4"),
        ({"start_match": ["line 2\nline 3"], "end_match": ["line 4"]}, "2\tline 2\n3\tline 3\n4\tline 4"),
    ],
)
async def test_returns_the_lines_asked_for(call, ten, arguments, answer):
    assert await call("read_file", path="ten.txt", **arguments) == answer


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"start_line": 11}, "empty_range"),
        ({"start_line": 5, "end_line": 4}, "empty_range"),
        ({"start_line": 0}, "invalid_args"),
        ({"start_line": 1.5}, "invalid_args"),
        ({"start_line": True}, "invalid_args"),
        ({"start_match": ["line 1"], "tail": 3}, "invalid_args"),
        ({"start_match": [""]}, "invalid_args"),
        ({"start_match": ["line"]}, "no_match"),
        ({"start_match": ["line 5"], "end_match": ["line 2"]}, "no_match"),
        ({"encoding": "latin"}, "invalid_args"),
        ({"nope": 1}, "invalid_args"),
    ],
)
async def test_refuses_a_range_that_selects_nothing(call, ten, arguments, code):
    assert await call.code("read_file", path="ten.txt", **arguments) == code


async def test_a_marker_that_occurs_twice_names_its_lines(call, project):
    (project / "a").write_text("x\ny\nx\n")
    answer = await call("read_file", path="a", start_match=["x"])
    assert answer["code"] == "ambiguous_match"
    assert "lines 1, 3" in answer["error"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "(empty file)"),
        (b"a\r\nb\r\n", "a\nb"),
        (b"a\nb", "a\nb"),
        (b"\n", ""),
        (b"\xef\xbb\xbfa\n", "a"),
        ("a\né\n".encode("utf-16"), "a\né"),
        ("a\né\n".encode("utf-16-be"), None),
        (b"\xfe\xff" + "a\n\u010a\n".encode("utf-16-be"), "a\n\u010a"),
        (b"caf\xe9\n", "[not valid utf-8: what stands for no character is shown as U+FFFD]\ncaf\ufffd"),
        (b"a\x1b[31mb\x07\n", "a<U+001B>[31mb<U+0007>"),
        ("a\u202eb\n".encode(), "a<U+202E>b"),
        ("\x85\x9b\n".encode(), "<U+0085><U+009B>"),
        (b"tab\there\n", "tab\there"),
    ],
)
async def test_shows_text_of_any_encoding(call, project, data, text):
    (project / "f").write_bytes(data)
    if text is None:
        assert await call.code("read_file", path="f") == "binary_file"
    else:
        assert await call("read_file", path="f") == (text or "(empty line)")


@pytest.mark.parametrize("arguments", [{"start_line": 2, "end_line": 2}, {"tail": 2}])
async def test_a_stretch_of_utf16_is_cut_at_its_line_feeds(call, project, arguments):
    # U+0A0A and U+010A hold the byte of a line feed without being one.
    (project / "f").write_bytes("one \u0a0a\r\ntwo \u010a\nthree\n".encode("utf-16"))
    want = "two \u010a" if "tail" not in arguments else "two \u010a\nthree"
    assert await call("read_file", path="f", **arguments) == want


async def test_tells_etag_size_newline_and_encoding(call, project):
    (project / "f").write_bytes(b"a\r\nb\n")
    meta = (await call.result("read_file", {"path": "f"})).meta
    assert meta["etag"] == hashlib.sha256(b"a\r\nb\n").hexdigest()[:16]
    assert (meta["size"], meta["newline"], meta["encoding"]) == (5, "mixed", "utf-8")
    assert meta["call_id"]
    marked = (await call.result("read_file", {"path": "f", "start_match": ["b"]})).meta
    assert {**marked, "call_id": ""} == {**meta, "call_id": ""}


async def test_a_whole_file_above_five_mebibytes_is_too_large_but_its_parts_are_not(call, project):
    line = b"x" * 99 + b"\n"
    (project / "big").write_bytes(line * 60_000)
    assert (await call("read_file", path="big"))["code"] == "too_large"
    assert await call("read_file", path="big", start_line=59_999) == "\n".join(["x" * 99] * 2)
    assert await call("read_file", path="big", tail=1) == "x" * 99


async def test_a_sparse_terabyte_is_read_from_its_end(call, project):
    with (project / "sparse").open("wb") as file:
        file.truncate(2**40)
        file.seek(0)
        file.write(b"first\n" + b"text" * 4000)
        file.seek(2**40 - 5)
        file.write(b"\nlast")
    assert await call("read_file", path="sparse", tail=1) == "last"
    assert await call("read_file", path="sparse", end_line=1) == "first"


MARKER = re.compile(r"\n\[lines (\d+)-(\d+) of (\d+); continue with start_line=(\d+)\]\Z")


@pytest.mark.parametrize(
    "line", ["    def value_of_{0}(self, context: Context, name: str = 'n{0}') -> Any:\n", "\n", "{0}\n"]
)
async def test_a_long_file_is_read_in_few_calls_by_following_its_markers(call, project, line):
    call.tokens = 10_000
    text = "".join(line.format(n) + ("" if n % 3 else "\n") for n in range(2_000))
    (project / "long").write_text(text)
    counted = tokenizer_for("gpt-4o").count
    at, got, calls, spent = 1, [], 0, 0
    while True:
        answer = await call("read_file", path="long", **({"start_line": at} if at > 1 else {}))
        calls, spent = calls + 1, spent + counted(answer)
        assert counted(answer) <= 10_000
        if not (marker := MARKER.search(answer)):
            got.append(answer)
            break
        first, last, total, at = map(int, marker.groups())
        assert (first, total) == (sum(map(len, (part.split("\n") for part in got))) + 1, text.count("\n"))
        assert at == last + 1
        got.append(answer[: marker.start()])
    assert "\n".join(got) == text.removesuffix("\n")
    assert calls <= counted(text) // 9_000 + 1
    assert spent <= 1.03 * counted(text)


async def test_a_long_line_is_read_by_its_characters(call, project):
    call.tokens = 500
    text = "".join(f"word{n} " for n in range(2_000))
    (project / "long").write_text(f"a\n{text}\nb\n")
    got, char = "", 1
    while True:
        answer = await call("read_file", path="long", start_line=2, end_line=2, start_char=char)
        marker = re.search(
            r"\n\[line 2: characters (\d+)-(\d+) of (\d+); continue with start_line=2, start_char=(\d+)\]\Z", answer
        )
        if not marker:
            got += answer
            break
        first, last, length, onward = map(int, marker.groups())
        assert (first, length, onward) == (char, len(text), last + 1)
        got += answer[: marker.start()]
        char = onward
    assert got == text
    assert await call.code("read_file", path="long", start_line=2, start_char=len(text) + 1) == "empty_range"


async def test_a_long_tail_keeps_its_end_and_says_the_range(call, project):
    call.tokens = 200
    (project / "long").write_text("".join(f"this is line number {n}\n" for n in range(1, 2001)))
    head, _, rest = (await call("read_file", path="long", tail=500)).partition("\n")
    first = int(re.fullmatch(r"\[lines (\d+)-2000 of 2000\]", head)[1])
    assert rest == "\n".join(f"this is line number {n}" for n in range(first, 2001))


async def test_several_files_come_each_under_its_name_and_refusals_in_place(call, project):
    (project / "a").write_text("one\n")
    (project / "b").write_text("two\n")
    result = await call.result("read_file", {"paths": ["a", "../x", "b", "gone"]})
    shown = [block.text for block in result.content]
    assert not result.is_error
    assert (shown[0], shown[2]) == ("==> a <==\none", "==> b <==\ntwo")
    assert shown[1].startswith("==> ../x <==\npath_denied: ") and shown[3].startswith("==> gone <==\nnot_a_file: ")
    for arguments in ({}, {"path": "a", "paths": ["b"]}, {"paths": ["a"] * 21}):
        assert await call.code("read_file", **arguments) == "invalid_args"


async def test_a_file_that_is_json_begins_with_its_range(call, project):
    for text in ("42", "[1, 2]", "true", '"a"'):
        (project / "f").write_text(text)
        assert await call("read_file", path="f") == f"[lines 1-1 of 1]\n{text}"
    (project / "f").write_text('{"a": 1}')
    assert (await call.result("read_file", {"path": "f"})).content[0].text == '{"a": 1}'


async def test_a_notebook_is_shown_as_its_cells(call, project):
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "source": "1 + 1",
            "outputs": [
                {"text": ["out\n"]},
                {"data": {"text/plain": "2", "image/png": "AAAA"}},
                {"ename": "E", "evalue": "why"},
            ],
        },
    ]
    (project / "n.ipynb").write_text(json.dumps({"cells": cells}))
    shown = (
        "--- cell 1 (markdown) ---\n# Title\ntext\n--- cell 2 (code) ---\n1 + 1\n"
        "--- output ---\nout\n--- output ---\n2\n(image/png)\n--- output ---\nE: why"
    )
    assert await call("read_file", path="n.ipynb") == shown
    assert await call("read_file", path="n.ipynb", start_line=4, end_line=5) == "--- cell 2 (code) ---\n1 + 1"
    (project / "n.ipynb").write_text("no notebook\n")
    assert await call("read_file", path="n.ipynb") == "no notebook"


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "missing"])
async def test_what_is_no_regular_file_is_refused_at_once(call, project, kind):
    place = project / "it"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(place))
    elif kind == "folder":
        place.mkdir()
    for arguments in ({}, {"tail": 1}, {"start_line": 1}, {"start_match": ["x"]}, {"encoding": "binary"}):
        assert await call.code("read_file", path="it", **arguments) == "not_a_file"


async def test_a_missing_file_names_similar_ones(call, project):
    (project / "settings.py").touch()
    answer = await call("read_file", path="setting.py")
    assert answer == {"code": "not_a_file", "error": "there is no file setting.py", "hint": "similar: settings.py"}
    (project / "app").mkdir()
    (project / "app" / "setting.py").touch()
    assert (await call("read_file", path="setting.py"))["hint"] == "similar: app/setting.py, settings.py"
    assert (await call("tree", path="ap"))["hint"] == "similar: app"
    assert (await call("move_file", source="src/setting.py", destination="x"))["hint"] == "similar: app/setting.py"


@pytest.mark.parametrize(
    ("path", "error", "hint"),
    [
        ("none", "there is no file none", "glob finds files by name"),
        ("dangling", "there is no file dangling", "glob finds files by name"),
        ("folder", "folder is a folder", "list_directory shows what is in it"),
    ],
)
async def test_what_is_no_file_says_what_to_do(call, project, path, error, hint):
    (project / "folder").mkdir()
    (project / "dangling").symlink_to("nowhere")
    assert await call("read_file", path=path) == {"code": "not_a_file", "error": error, "hint": hint}


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../secret", "link", "dir/secret", "a\0b"])
async def test_nothing_outside_the_root_is_read(call, project, path):
    (project.parent / "secret").write_text("secret")
    (project / "link").symlink_to("../secret")
    (project / "dir").symlink_to("..")
    assert await call.code("read_file", path=path) == "path_denied"


async def test_unsafe_reads_outside_only_where_the_operator_grants_it(call, project):
    from toolbox_mcp.server.call.pipeline import Rules

    outside = project.parent / "outside.txt"
    outside.write_text("there\n")
    call.rules = Rules(allow_unsafe=True)
    assert await call("read_file", path=str(outside), unsafe=True) == "there"
    assert call.overrides == [("read_file", f"path {outside}")]
    assert await call.code("read_file", path=str(outside)) == "path_denied"


async def test_unsafe_is_denied_by_default_even_where_it_is_not_needed(call, ten):
    assert await call.code("read_file", path="ten.txt", unsafe=True) == "unsafe_denied"
    assert await call.code("read_file", path="ten.txt", unsafe="true") == "unsafe_denied"
    assert await call("read_file", path="ten.txt", tail=1, unsafe=False) == "line 10"


async def test_binary_is_refused_as_text_and_sent_as_a_resource_when_asked(call, project):
    (project / "b").write_bytes(b"\x00\x01\x02")
    answer = await call("read_file", path="b")
    assert answer["code"] == "binary_file"
    assert 'encoding="binary"' in answer["hint"]
    result = await call.result("read_file", {"path": "b", "encoding": "binary"})
    resource = result.content[0].resource
    assert (resource.uri, resource.blob) == ("toolbox://files/b", "AAEC")


@pytest.mark.parametrize("size", [0, 3000])
async def test_an_image_that_is_none_is_sent_as_its_bytes(call, project, size):
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", size, size, 8, 2, 0, 0, 0)
    (project / "b.png").write_bytes(data)
    assert 'encoding="binary"' in (await call("read_file", path="b.png"))["hint"]
    resource = (await call.result("read_file", {"path": "b.png", "encoding": "binary"})).content[0].resource
    assert base64.b64decode(resource.blob) == data


async def test_the_address_of_a_binary_file_is_a_valid_one(call, project):
    (project / "d").mkdir()
    (project / "d" / "hé x#%41?.bin").write_bytes(b"\0")
    found = await call.result("read_file", {"path": "d/hé x#%41?.bin", "encoding": "binary"})
    assert found.content[0].resource.uri == "toolbox://files/d/h%C3%A9%20x%23%2541%3F.bin"


@pytest.mark.parametrize("path", ["none.txt", "dangling"])
async def test_the_neighbours_of_a_missing_file_are_looked_at_in_a_thread(call, project, monkeypatch, path):
    (project / "dangling").symlink_to("none.txt")
    where = []
    similar = JailedPath.similar

    def noting(self):
        where.append(threading.current_thread())
        return similar(self)

    monkeypatch.setattr(JailedPath, "similar", noting)
    assert await call.code("read_file", path=path) == "not_a_file"
    assert where
    assert threading.main_thread() not in where


async def test_the_numbers_of_a_tail_are_those_of_the_lines_shown_also_while_the_file_grows(call, project, monkeypatch):
    log = project / "log"
    log.write_text("".join(f"{n}\n" for n in range(1, 101)))
    count = stretch.count_lines

    def count_later(*arguments):
        with log.open("a") as out:
            out.write("new\n" * 10)
        return count(*arguments)

    monkeypatch.setattr(stretch, "count_lines", count_later)
    assert await call("read_file", path="log", tail=2, numbered=True) == "99\t99\n100\t100"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_a_return_at_the_end_of_the_file_is_shown_however_it_is_read(call, project, encoding):
    (project / "f").write_bytes("a\r\nb\r".encode(encoding))
    assert await call("read_file", path="f") == "a\nb\r"
    assert await call("read_file", path="f", start_line=1) == "a\nb\r"
    assert await call("read_file", path="f", start_line=2) == "b\r"
    assert await call("read_file", path="f", tail=1) == "b\r"


@each_row("part", [{"start_line": 2}, {"tail": 2}])
@each_row("encoding", ["utf-8", "utf-16"])
@each_row(("text", "newline"), [("\nb\nc", "lf"), ("\r\nb\r\nc", "crlf"), ("\nb\r\nc\n", "mixed"), ("\r\nb", "none")])
async def test_the_line_ends_of_a_part_are_told(call, project, part, encoding, text, newline):
    (project / "f").write_bytes(text.encode(encoding))
    if newline == "none":
        part = {"tail": 1}
    assert (await call.result("read_file", {"path": "f", **part})).meta["newline"] == newline


async def test_a_marker_may_end_in_a_line_break(call, project):
    (project / "f").write_text("hit\nmore\n")
    assert await call("read_file", path="f", start_match=["hit\n"]) == "1\thit\n2\tmore"


@pytest.mark.parametrize("part", [{"start_line": 1}, {"end_line": 1}, {"tail": 1}, {"start_match": ["a"]}])
async def test_bytes_come_whole(call, project, part):
    (project / "f").write_bytes(b"a")
    assert await call.code("read_file", path="f", encoding="binary", **part) == "invalid_args"


@pytest.mark.parametrize(
    ("head", "arguments"), [(b"", {"encoding": "binary"}), (b"%PDF-1.4\n", {}), (b"%PDF-1.4\n", {"encoding": "binary"})]
)
async def test_no_part_is_advised_of_what_comes_whole_or_not_at_all(call, project, head, arguments):
    (project / "f").write_bytes(head + b"a" * (5 * 2**20 + 1))
    refused = await call("read_file", path="f", **arguments)
    assert refused["code"] == "too_large"
    assert "hint" not in refused
