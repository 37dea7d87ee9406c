import base64
import hashlib
import mimetypes
import os
import socket
import stat
from io import BytesIO

import pytest
from PIL import Image

from tests.tables import each_row
from toolbox_mcp.safety.path_jail.roots import JailedPath

CONTENT = {"encoding", "newline", "lines", "etag", "image", "data"}
"""Fields of a file whose content was looked into."""


async def fields(call, **arguments):
    result = await call.result("file_info", arguments)
    assert not result.is_error, result.content
    return result.structured_content


def png(width=30, height=20):
    out = BytesIO()
    Image.new("RGB", (width, height)).save(out, "PNG")
    return out.getvalue()


async def test_tells_all_there_is_of_a_file(call, project):
    data = "é\r\nb".encode()
    file = project / "src" / "Main.PY"
    file.parent.mkdir()
    file.write_bytes(data)
    file.chmod(0o640)
    os.utime(file, (1795236238, 1795236238))
    assert await fields(call, path="src/Main.PY") == {
        "path": "src/Main.PY",
        "exists": True,
        "type": "file",
        "size": 5,
        "mode": "0640",
        "modified": "2026-11-21T04:43:58Z",
        "extension": ".PY",
        "normalized_extension": ".py",
        "mime": "text/x-python; charset=utf-8",
        "base_mime": "text/x-python",
        "known": True,
        "content_mode": "text",
        "method": "extension",
        "encoding": "utf-8",
        "newline": "crlf",
        "lines": 2,
        "etag": hashlib.sha256(data).hexdigest()[:16],
    }


async def test_the_text_has_a_line_for_each_field_that_applies_and_follows_from_no_other(call, project):
    (project / "a.txt").write_text("x\n")
    os.utime(project / "a.txt", (0, 0))
    (project / "a.txt").chmod(0o644)
    tag = hashlib.sha256(b"x\n").hexdigest()[:16]
    assert (await call("file_info", path="a.txt")).split("\n") == [
        "path: a.txt", "exists: true", "type: file", "size: 2", "mode: 0644", "modified: 1970-01-01T00:00:00Z",
        "mime: text/plain; charset=utf-8", "content_mode: text", "encoding: utf-8", "newline: lf", "lines: 1", f"etag: {tag}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("extension", "normalized", "mime", "mode"),
    [
        ("py", ".py", "text/x-python", "text"),
        (".PY", ".py", "text/x-python", "text"),
        ("ts", ".ts", "text/x-typescript", "text"),
        ("json", ".json", "application/json", "text"),
        ("yml", ".yml", "application/yaml", "text"),
        ("svg", ".svg", "image/svg+xml", "image"),
        ("jpg", ".jpg", "image/jpeg", "image"),
        ("pdf", ".pdf", "application/pdf", "document"),
        ("docx", ".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "document"),
        ("gz", ".gz", "application/gzip", "default"),
        ("nosuch", ".nosuch", "application/octet-stream", "default"),
    ],
)
async def test_tells_the_type_of_an_extension(call, extension, normalized, mime, mode):
    known = {} if normalized == ".nosuch" else {"known": True}
    assert await fields(call, extension=extension) == known | {
        "extension": extension, "normalized_extension": normalized, "mime": mime, "base_mime": mime,
        "content_mode": mode, "method": "extension",
    }  # fmt: skip


async def test_a_missing_path_is_a_result(call, project):
    assert await fields(call, path="no/such.md") == {
        "path": "no/such.md", "extension": ".md", "normalized_extension": ".md",
        "mime": "text/markdown", "base_mime": "text/markdown", "known": True, "content_mode": "text",
        "method": "extension",
    }  # fmt: skip
    (project / "file").touch()
    assert "exists" not in await fields(call, path="file/below")
    assert "\nexists: false\n" in await call("file_info", path="file/below")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "invalid_args"),
        ({"path": "a", "extension": "py"}, "invalid_args"),
        ({"extension": ""}, "invalid_args"),
        ({"extension": " . "}, "invalid_args"),
        ({"extension": "a/b"}, "invalid_args"),
        ({"extension": "a\nb"}, "invalid_args"),
        ({"extension": "x" * 101}, "invalid_args"),
        ({"path": ".."}, "path_denied"),
        ({"path": "/etc/passwd"}, "path_denied"),
        ({"path": "out/secret"}, "path_denied"),
        ({"path": "a\0b"}, "path_denied"),
        ({"path": "x" * 300}, "path_denied"),
    ],
)
async def test_refuses(call, project, arguments, code):
    (project / "out").symlink_to("..")
    (project.parent / "secret").touch()
    assert await call.code("file_info", **arguments) == code


@each_row(
    ("data", "mime", "known"),
    [
        (b"", "text/plain", True),
        (b"plain\n", "text/plain", True),
        (b"#!/bin/sh\n", "text/x-shellscript", True),
        (b"#!/usr/bin/env python3\n", "text/x-python", True),
        (b"#! /usr/bin/env -S node --x\n", "text/javascript", True),
        (b"#!/usr/bin/env nosuch\n", "text/plain", True),
        (b"<?xml version='1.0'?>\n<a/>", "application/xml", True),
        (b"<?xml version='1.0'?>\n<svg/>", "image/svg+xml", True),
        (b"\n<!DOCTYPE html>", "text/html", True),
        (b"%PDF-1.4\n", "application/pdf", True),
        (b"MZ begins a word\n", "text/plain", True),
        (b"MZ\x90\0\3", "application/vnd.microsoft.portable-executable", True),
        (b"RIFF\0\0\0\0AVI ", "application/octet-stream", False),
        (b"\x7fELF\2\1\1\0", "application/x-executable", True),
        (b"PK\3\4\0\0", "application/zip", True),
        (b"\0" * 257 + b"ustar", "application/x-tar", True),
        (b"\0\1\2", "application/octet-stream", False),
        (b"\1\2\3\4\5\6" * 9, "application/octet-stream", False),
        ("x\n".encode("utf-16"), "text/plain", True),
    ],
)
async def test_a_name_that_says_nothing_leaves_it_to_the_content(call, project, data, mime, known):
    for name in ("it", "it.nosuch"):
        (project / name).write_bytes(data)
        found = await fields(call, path=name)
        assert (found["base_mime"], "known" in found, found["method"]) == (mime, known, "sniff")


async def test_the_name_wins_over_the_content(call, project):
    (project / "a.txt").write_bytes(png())
    found = await fields(call, path="a.txt")
    assert (found["mime"], found["method"], "encoding" in found) == ("text/plain", "extension", False)
    assert found["image"] == {"format": "png", "width": 30, "height": 20}


@pytest.mark.parametrize(
    ("name", "mime"),
    [
        ("Makefile", "text/x-makefile"),
        ("Dockerfile", "text/x-dockerfile"),
        ("Gemfile", "text/x-ruby"),
        (".gitignore", "text/plain"),
        ("LICENSE", "text/plain"),
        ("CMakeLists.txt", "text/x-cmake"),
        ("a.tar.gz", "application/gzip"),
    ],
)
async def test_some_names_are_known_as_a_whole(call, project, name, mime):
    found = await fields(call, path=name)
    assert (found["base_mime"], found["method"]) == (mime, "extension")


@pytest.mark.parametrize(
    ("data", "encoding", "newline", "lines"),
    [
        (b"", "utf-8", "none", 0),
        (b"one", "utf-8", "none", 1),
        (b"one\n", "utf-8", "lf", 1),
        (b"\n\n", "utf-8", "lf", 2),
        (b"a\r\nb\n", "utf-8", "mixed", 2),
        (b"\xef\xbb\xbfa\r\n", "utf-8", "crlf", 1),
        ("a\nb".encode("utf-16"), "utf-16-le", "lf", 2),
        (b"\xfe\xff" + "a\nb".encode("utf-16-be"), "utf-16-be", "lf", 2),
        (b"caf\xe9\n", "unknown-8bit", "lf", 1),
        (b"a\0b\n", None, None, None),
        (b"%PDF-1.7\nx\n", None, None, None),
    ],
)
async def test_tells_how_the_text_is_written(call, project, data, encoding, newline, lines):
    (project / "a").write_bytes(data)
    found = await fields(call, path="a")
    told = {"encoding": encoding, "newline": newline, "lines": lines} if encoding else {}
    assert {name: found[name] for name in ("encoding", "newline", "lines") if name in found} == told
    assert found["etag"] == hashlib.sha256(data).hexdigest()[:16]


async def test_the_etag_is_the_one_that_read_file_tells_and_edits_expect(call, project):
    (project / "a").write_text("x\n")
    tag = (await fields(call, path="a"))["etag"]
    assert (await call.result("read_file", {"path": "a"})).meta["etag"] == tag
    await call("write_file", path="a", content="y\n", expected_etag=tag)
    assert await call.code("write_file", path="a", content="z\n", expected_etag=tag) == "file_changed"


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_tells_the_size_of_an_image_and_sends_it_when_asked(call, project, form):
    out = BytesIO()
    Image.new("RGB", (31, 17)).save(out, form)
    (project / "picture").write_bytes(out.getvalue())
    found = await fields(call, path="picture")
    assert found["image"] == {"format": form.lower(), "width": 31, "height": 17}
    assert ("data" in found, found["content_mode"], found["mime"]) == (False, "image", f"image/{form.lower()}")
    assert f"image: {form.lower()} 31x17" in await call("file_info", path="picture")
    found = await fields(call, path="picture", include_data=True)
    assert base64.b64decode(found["data"]) == out.getvalue()
    text = await call("file_info", path="picture", include_data=True)
    assert f"data: ({len(found['data'])} characters of base64)" in text


async def test_a_large_image_is_sent_up_to_five_mebibytes(call, project):
    data = png() + os.urandom(5 * 2**20 - len(png()))
    (project / "a.png").write_bytes(data)
    assert base64.b64decode((await fields(call, path="a.png", include_data=True))["data"]) == data
    (project / "a.png").write_bytes(data + b"x")
    assert await call.code("file_info", path="a.png", include_data=True) == "too_large"
    found = await fields(call, path="a.png")
    assert (found["image"]["width"], "etag" in found, found["size"]) == (30, False, 5 * 2**20 + 1)


async def test_data_of_what_is_no_image_is_not_sent(call, project):
    (project / "a.txt").write_text("x")
    assert "data" not in await fields(call, path="a.txt", include_data=True)
    os.truncate(project / "a.txt", 5 * 2**20 + 1)
    assert await call.code("file_info", path="a.txt", include_data=True) == "too_large"


async def test_a_large_file_is_described_without_reading_all_of_it(call, project):
    with (project / "big").open("wb") as file:
        file.write(b"text\n" * 2000)
        file.truncate(2**40)
    found = await fields(call, path="big")
    assert (found["size"], found["mime"]) == (2**40, "text/plain")
    assert found.keys().isdisjoint(CONTENT)


@pytest.mark.parametrize("target", ["a.txt", "../secret", "nowhere", "link.py"])
async def test_a_link_is_described_itself(call, project, target):
    (project / "a.txt").write_text("text")
    (project.parent / "secret").write_text("secret")
    (project / "link.py").symlink_to(target)
    found = await fields(call, path="link.py")
    assert (found["type"], found["is_symlink"], found["size"]) == ("symlink", True, len(target))
    assert (found["mime"], found["extension"]) == ("inode/symlink", ".py")
    assert found.keys().isdisjoint(CONTENT)


@pytest.mark.parametrize(
    ("kind", "mime", "type_"),
    [
        ("dir", "inode/directory", "dir"),
        ("fifo", "inode/fifo", "other"),
        ("socket", "inode/socket", "other"),
        pytest.param(
            "device", "inode/chardevice", "other", marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
        ),
    ],
)
async def test_what_is_no_file_is_described_and_never_opened(call, project, kind, mime, type_):
    place = project / "it.py"
    if kind == "dir":
        place.mkdir()
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "device":
        os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    else:
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(place))
    found = await fields(call, path="it.py")
    assert (found["mime"], found["type"], found["content_mode"]) == (mime, type_, "default")
    assert found.keys().isdisjoint(CONTENT)


async def test_the_root_is_described(call, project):
    found = await fields(call, path=".")
    assert (found["path"], found["type"], found["extension"]) == (".", "dir", "")


async def test_no_file_of_the_system_has_a_say(call, project, monkeypatch):
    monkeypatch.setattr(mimetypes, "knownfiles", [str(project / "mime.types")])
    (project / "mime.types").write_text("evil/type nosuch py\n")
    mimetypes.init()
    try:
        assert "known" not in await fields(call, extension="nosuch")
        assert (await fields(call, extension="py"))["mime"] == "text/x-python"
    finally:
        monkeypatch.undo()
        mimetypes.init()


async def test_a_file_that_goes_away_meanwhile_is_told_as_it_was_seen(call, project, monkeypatch):
    (project / "a.py").write_text("x = 1\n")
    open_file = JailedPath.open_file

    def removed(self):
        (project / "a.py").unlink()
        return open_file(self)

    monkeypatch.setattr(JailedPath, "open_file", removed)
    info = await fields(call, path="a.py")
    assert (info["exists"], info["type"], info["size"], info["mime"]) == (True, "file", 6, "text/x-python")
    assert info.keys().isdisjoint(CONTENT)
