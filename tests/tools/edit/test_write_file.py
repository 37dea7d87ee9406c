import base64
import hashlib
import os
import stat
import tracemalloc
from io import BytesIO

import pytest
from PIL import Image
from pypdf import PdfWriter


def page(text):
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    sheet = writer.add_blank_page(200, 200)
    font = DictionaryObject(
        {NameObject("/Type"): NameObject("/Font"), NameObject("/Subtype"): NameObject("/Type1"), NameObject("/BaseFont"): NameObject("/Helvetica")}
    )  # fmt: skip
    fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
    sheet[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    content = DecodedStreamObject()
    content.set_data(b"BT /F1 12 Tf 20 100 Td (%s) Tj ET" % text.encode())
    sheet[NameObject("/Contents")] = writer._add_object(content)
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def png():
    out = BytesIO()
    Image.new("RGB", (2, 2)).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        ({"content": "hello\n"}, b"hello\n"),
        ({"content": ""}, b""),
        ({"content": "a\r\nb\rc\n"}, b"a\r\nb\rc\n"),
        ({"content": "é\u4e2d"}, "é\u4e2d".encode()),
        ({"content": base64.b64encode(bytes(range(256))).decode(), "encoding": "binary"}, bytes(range(256))),
    ],
)
async def test_writes_the_content_as_given(call, project, arguments, data):
    assert await call("write_file", path="new.txt", **arguments) == f"Created new.txt ({len(data)} bytes)"
    assert (project / "new.txt").read_bytes() == data
    again = await call("write_file", path="new.txt", **arguments)
    assert again == f"Overwrote new.txt ({len(data)} bytes)"


@pytest.mark.parametrize(
    ("path", "arguments", "code"),
    [
        ("f", {"overwrite": False}, "exists"),
        ("folder", {}, "is_a_directory"),
        ("pipe", {}, "not_a_file"),
        ("no/such", {"create_parents": False}, "not_found"),
        ("/".join("123456789") + "/f", {}, "refused"),
        ("f/below", {}, "not_a_directory"),
        ("../x", {}, "path_denied"),
        ("/etc/x", {}, "path_denied"),
        ("outside", {}, "path_denied"),
        ("dangling", {}, "path_denied"),
        (".git/hooks/post-commit", {}, "protected_path"),
        ("git-link/hooks/x", {}, "protected_path"),
        ("f", {"encoding": "binary", "content": "no base64!"}, "invalid_args"),
        ("f", {"content": "\ud800"}, "invalid_args"),
        ("f", {"expected_etag": "0" * 16}, "file_changed"),
        ("missing", {"expected_etag": "0" * 16}, "file_changed"),
        ("folder", {"expected_etag": "0" * 16}, "is_a_directory"),
        ("f", {"content": 5}, "invalid_args"),
        ("f", {"content": "x" * (16 * 2**20 + 1)}, "too_large"),
        ("x" * 300, {}, "path_denied"),
    ],
)
async def test_a_refused_write_changes_nothing(call, project, path, arguments, code):
    (project.parent / "x").write_text("outside")
    (project / "f").write_text("old")
    (project / "folder").mkdir()
    (project / ".git").mkdir()
    (project / "git-link").symlink_to(".git")
    (project / "outside").symlink_to("../x")
    (project / "dangling").symlink_to("../nowhere")
    os.mkfifo(project / "pipe")
    before = sorted(os.walk(project.parent))
    assert await call.code("write_file", **{"path": path, "content": "new"} | arguments) == code
    assert sorted(os.walk(project.parent)) == before
    assert (project / "f").read_text() == "old"
    assert (project.parent / "x").read_text() == "outside"


async def test_parents_are_made_and_the_mode_is_that_of_the_umask(call, project):
    await call("write_file", path="a/b/c.txt", content="x")
    assert (project / "a/b/c.txt").read_text() == "x"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(os.stat(project / "a/b/c.txt").st_mode) == 0o666 & ~umask


async def test_the_mode_of_an_existing_file_stays_and_a_link_keeps_its_target(call, project):
    (project / "f").write_text("old")
    os.chmod(project / "f", 0o640)
    (project / "link").symlink_to("f")
    await call("write_file", path="link", content="new")
    assert (project / "link").is_symlink()
    assert ((project / "f").read_text(), stat.S_IMODE(os.stat(project / "f").st_mode)) == ("new", 0o640)


async def test_a_file_that_changed_since_this_session_read_it_is_not_overwritten(call, project):
    (project / "f").write_text("one")
    await call("read_file", path="f")
    (project / "f").write_text("someone else's")
    assert await call.code("write_file", path="f", content="two") == "file_changed"
    assert (project / "f").read_text() == "someone else's"
    await call("read_file", path="f")
    assert await call("write_file", path="f", content="two") == "Overwrote f (3 bytes)"
    assert await call("write_file", path="f", content="three") == "Overwrote f (5 bytes)"


async def test_a_file_never_read_is_overwritten(call, project):
    (project / "f").write_text("one")
    assert await call("write_file", path="f", content="two") == "Overwrote f (3 bytes)"


async def test_the_expected_etag_lets_the_write_through(call, project):
    (project / "f").write_text("one")
    tag = hashlib.sha256(b"one").hexdigest()[:16]
    result = await call.result("write_file", {"path": "f", "content": "two", "expected_etag": tag})
    assert result.meta["etag"] == hashlib.sha256(b"two").hexdigest()[:16]


async def test_unsafe_writes_outside_only_where_granted_and_never_what_is_protected(call, project):
    from toolbox_mcp.server.call.pipeline import Rules

    call.rules = Rules(allow_unsafe=True)
    outside = project.parent / "outside.txt"
    assert await call("write_file", path=str(outside), content="x", unsafe=True) == f"Created {outside} (1 bytes)"
    assert call.overrides == [("write_file", f"path {outside}")]
    (project.parent / ".git").mkdir()
    assert (
        await call.code("write_file", path=str(project.parent / ".git/x"), content="x", unsafe=True) == "protected_path"
    )


@pytest.mark.slow
@pytest.mark.parametrize("size", [2**29, 2**40])
async def test_a_huge_file_is_compared_with_an_etag_in_little_memory(call, project, size):
    (project / "f").write_bytes(b"one")
    await call("read_file", path="f")
    os.truncate(project / "f", size)
    tracemalloc.start()
    try:
        assert await call.code("write_file", path="f", content="x", expected_etag="0" * 16) == "file_changed"
        assert await call.code("write_file", path="f", content="x") == "file_changed"
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()
    assert (project / "f").stat().st_size == size


@pytest.mark.parametrize("name", ["f.pdf", "f.png", "f.bin"])
async def test_what_was_read_as_bytes_or_pages_is_known_too(call, project, name):
    data = {"f.pdf": page("one page"), "f.png": png(), "f.bin": b"\0\1"}[name]
    (project / name).write_bytes(data)
    arguments = {"path": name} | ({} if name == "f.pdf" else {"encoding": "binary"})
    read = await call.result("read_file", arguments)
    assert (read.meta["etag"], read.meta["size"]) == (hashlib.sha256(data).hexdigest()[:16], len(data))
    (project / name).write_bytes(data + b"more")
    assert await call.code("write_file", path=name, content="x") == "file_changed"
    assert (project / name).read_bytes() == data + b"more"
    (project / name).write_bytes(data)
    assert await call("write_file", path=name, content="x") == f"Overwrote {name} (1 bytes)"


async def test_what_changes_while_it_is_overwritten_is_not_lost_for_undo(call, project, monkeypatch):
    from toolbox_mcp.safety.writes import atomic

    (project / "f").write_text("old")
    sync = os.fsync

    def meanwhile(fd):
        (project / "f").write_text("theirs")
        sync(fd)

    monkeypatch.setattr(atomic.os, "fsync", meanwhile)
    assert await call.code("write_file", path="f", content="new") == "file_changed"
    assert (project / "f").read_text() == "theirs"
    assert os.listdir(project) == ["f"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a\nb\n", "Overwrote a.txt (4 bytes; its lines ended in CRLF, these end in LF)"),
        ("a\r\nb\r\n", "Overwrote a.txt (6 bytes)"),
        ("a", "Overwrote a.txt (1 bytes)"),
    ],
)
async def test_line_ends_that_are_lost_are_told(call, project, content, told):
    (project / "a.txt").write_bytes(b"x\r\ny\r\n")
    assert (await call("write_file", path="a.txt", content=content)).startswith(told)
