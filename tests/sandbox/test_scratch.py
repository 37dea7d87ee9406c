"""What comes back of a scratch folder that a program filled as it liked."""

import os
import socket
import sys

import pytest

from toolbox_mcp.sandbox import scratch
from toolbox_mcp.sandbox.scratch import IMAGE_BYTES, MOST_FILES, MOST_IMAGES, collect
from toolbox_mcp.sandbox.spec import FsPolicy

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    inside = tmp_path / "scratch"
    inside.mkdir()
    monkeypatch.chdir(inside)
    return inside


async def left(folder):
    before = len(os.listdir("/dev/fd"))
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return await collect(place)
    finally:
        os.close(place)
        assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize(
    ("head", "mime"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'>", None),
        (b"\x89PNG", None),
        (b"", None),
    ],
)
async def test_what_a_file_is_shows_in_its_first_bytes_and_not_in_its_name(folder, head, mime):
    (folder / "plot.jpg").write_bytes(head)
    (found,) = await left(folder)
    assert (found.name, found.size, found.mime) == ("plot.jpg", len(head), mime)
    assert found.data == (head if mime else None)


async def test_an_image_that_is_too_large_is_only_listed(folder):
    for name, size in (("a.png", IMAGE_BYTES), ("b.png", IMAGE_BYTES + 1)):
        (folder / name).write_bytes(PNG)
        os.truncate(name, size)
    assert [(file.size, file.data is None) for file in await left(folder)] == [
        (IMAGE_BYTES, False),
        (IMAGE_BYTES + 1, True),
    ]


async def test_so_many_images_come_back_and_the_rest_is_listed(folder):
    for number in range(MOST_IMAGES + 2):
        (folder / f"{number:02}.png").write_bytes(PNG)
    assert [file.data is not None for file in await left(folder)] == [True] * MOST_IMAGES + [False] * 2


async def test_images_share_one_bound(folder):
    for number in range(4):
        (folder / f"{number}.png").write_bytes(PNG)
        os.truncate(f"{number}.png", IMAGE_BYTES // 3 + 1)
    assert [file.data is not None for file in await left(folder)] == [True, True, False, False]


async def test_what_the_sandbox_has_put_there_was_not_left_by_the_program(folder):
    for name in ("toolchain/bin/it", "toolchain/mine", "mine"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    found = await collect(place, FsPolicy(read=("/tmp/toolchain/bin", "/usr")).below("/tmp"))
    os.close(place)
    assert [file.name for file in found] == ["mine", "toolchain/mine"]


async def test_so_many_files_are_listed_and_no_more(folder):
    for number in range(MOST_FILES + 20):
        (folder / f"{number:03}").touch()
    assert [file.name for file in await left(folder)] == [f"{number:03}" for number in range(MOST_FILES)]


async def test_folders_are_entered_to_a_depth(folder):
    for depth in range(scratch._DEPTH + 2):
        (folder / "/".join("d" * (depth + 1))).mkdir()
        (folder / "/".join("d" * (depth + 1)) / "file").touch()
    assert [file.name for file in await left(folder)] == ["d/d/d/file", "d/d/file", "d/file"]


async def test_hidden_names_are_left_out(folder):
    (folder / "in").mkdir()
    for name in (".cache", "note", "in/.cache", "in/note"):
        (folder / name).touch()
    assert [file.name for file in await left(folder)] == ["in/note", "note"]


async def test_no_link_is_followed_and_nothing_opened_but_files(folder, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.png").write_bytes(PNG)
    os.symlink(outside / "secret.png", "a.png")
    os.symlink("../outside/secret.png", "b.png")
    os.symlink(outside, "folder")
    os.symlink("loop", "loop")
    os.mkfifo("fifo.png")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.png")
        assert await left(folder) == ()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are text")
async def test_names_of_any_bytes_come_back_as_text(folder):
    for name in (b"a\nb", b"\x1b[31mc", b"d\xff"):
        os.close(os.open(name, os.O_CREAT))
    assert {file.name for file in await left(folder)} == {"a\nb", "\x1b[31mc", "d�"}


async def test_a_folder_that_is_gone_or_closed_is_empty(folder):
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        folder.rmdir()
        assert await collect(place) == ()
    finally:
        os.close(place)
