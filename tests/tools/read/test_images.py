import struct
import sys
import zlib
from io import BytesIO

import pytest
from PIL import Image

from tests.tables import each_row
from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.sandbox.isolate.worker import Worker
from toolbox_mcp.tools.read import _images as images


def picture(name, size=(40, 30), mode="RGB", **options):
    out = BytesIO()
    Image.new(mode, size, 1 if mode in ("1", "P") else None).save(out, name, **options)
    return out.getvalue()


def noise(name, size, **options):
    out = BytesIO()
    Image.effect_noise(size, 100).convert("RGB").save(out, name, **options)
    return out.getvalue()


def opened(data):
    with Image.open(BytesIO(data)) as image:
        image.load()
        return image.format.lower(), image.size


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_that_declares(width, height, rows=b""):
    start = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", start) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@each_row(
    ("name", "options"),
    [
        ("png", {}),
        ("jpeg", {}),
        ("jpeg", {"progressive": True}),
        ("jpeg", {"exif": b"Exif\0\0" + b"\xff\xc0" * 2000, "comment": b"\xff\xc0\x00\x00"}),
        ("gif", {}),
        ("webp", {}),
        ("webp", {"lossless": True}),
        ("webp", {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0"}),
    ],
)
def test_the_header_says_format_and_size(name, options):
    assert images.header(picture(name, (300, 200), **options)) == {"format": name, "width": 300, "height": 200}


def test_the_header_of_a_large_webp_is_read_to_the_last_bit():
    data = picture("webp", (16383, 1), lossless=True)
    assert images.header(data) == {"format": "webp", "width": 16383, "height": 1}


@each_row("name", ["png", "jpeg", "gif", "webp"])
def test_a_header_that_is_cut_off_anywhere_is_none_or_right(name):
    data = picture(name)
    whole = images.header(data)
    assert {str(images.header(data[:length])) for length in range(len(data))} == {"None", str(whole)}


@each_row(
    "data",
    [b"", b"text", b"GIF89a\0\0\0\0", b"\xff\xd8\xff\xe0\x00\x00", b"\xff\xd8" + b"\xff" * 50, b"RIFF____WEBPxxxx" * 4],
)
def test_what_is_no_image_has_no_header(data):
    assert images.header(data) is None


@each_row("name", ["png", "jpeg", "gif", "webp"])
def test_a_small_image_stays_byte_for_byte(name):
    data = picture(name)
    assert images.scaled(data) == (data, f"image/{name}")


@each_row(
    ("name", "mode"),
    [
        ("png", "RGB"),
        ("png", "RGBA"),
        ("png", "L"),
        ("png", "LA"),
        ("png", "P"),
        ("png", "1"),
        ("png", "I;16"),
        ("jpeg", "RGB"),
        ("jpeg", "L"),
        ("jpeg", "CMYK"),
        ("gif", "P"),
        ("webp", "RGB"),
        ("webp", "RGBA"),
    ],
)
def test_a_large_image_is_scaled_in_its_format(name, mode):
    data, mime = images.scaled(picture(name, (4000, 1000), mode))
    assert mime == f"image/{name}"
    assert opened(data) == (name, (1568, 392))


def test_the_edge_is_the_callers():
    assert opened(images.scaled(picture("png", (100, 50)), max_edge=10)[0]) == ("png", (10, 5))


def test_a_photo_that_lies_on_its_side_is_turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    data, _ = images.scaled(picture("jpeg", (2000, 1000), exif=exif.tobytes()))
    assert opened(data)[1] == (784, 1568)


def test_sixteen_bits_of_grey_keep_their_shades():
    out = BytesIO()
    Image.new("I;16", (2000, 10), 0x8000).save(out, "png")
    with Image.open(BytesIO(images.scaled(out.getvalue())[0])) as image:
        assert image.getpixel((5, 5)) == 128


def test_an_animation_that_is_too_large_becomes_its_first_picture():
    out = BytesIO()
    frames = [Image.new("P", (2000, 100), colour) for colour in (1, 2, 3)]
    frames[0].save(out, "gif", save_all=True, append_images=frames[1:])
    with Image.open(BytesIO(images.scaled(out.getvalue())[0])) as image:
        assert (image.size, getattr(image, "n_frames", 1)) == ((1568, 78), 1)


@pytest.mark.slow
@each_row("name", ["png", "jpeg", "webp"])
def test_a_file_with_too_many_bytes_shrinks_until_it_fits(name):
    data = noise(name, (900, 900))
    small, _ = images.scaled(data, max_bytes=20_000)
    assert len(data) > 20_000 >= len(small)
    assert opened(small)[0] == name


def failure(data, **options):
    with pytest.raises(ToolError) as caught:
        images.scaled(data, **options)
    return caught.value.code


@pytest.mark.slow
def test_a_file_that_does_not_get_small_enough_is_too_large():
    assert failure(noise("png", (900, 900)), max_bytes=50) is Code.TOO_LARGE


@pytest.mark.parametrize("size", [(50_000, 50_000), (2**31 - 1, 2**31 - 1), (7072, 7072)])
def test_a_png_that_declares_too_many_pixels_is_refused_before_it_is_decoded(size, monkeypatch):
    monkeypatch.setattr(Image, "open", None)
    assert failure(png_that_declares(*size)) is Code.TOO_LARGE


def test_a_gif_whose_first_picture_is_larger_than_it_declares_is_refused():
    frame = b",\0\0\0\0" + struct.pack("<HH", 65535, 65535) + b"\0\x02\x02D\x01\0;"
    data = b"GIF89a" + struct.pack("<HH", 2000, 10) + b"\x80\0\0" + b"\0" * 6 + frame
    assert images.header(data) == {"format": "gif", "width": 2000, "height": 10}
    assert failure(data) is Code.TOO_LARGE


@pytest.mark.slow
@each_row("name", ["png", "jpeg", "gif", "webp"])
def test_a_truncated_large_image_is_damaged(name):
    data = noise(name, (1600, 1600))
    assert failure(data[: len(data) // 2]) is Code.BINARY_FILE


@each_row("name", ["png", "jpeg", "gif", "webp"])
def test_a_mangled_large_image_is_an_image_or_an_error(name):
    data = bytearray(noise(name, (1600, 10)))
    for at in range(30, len(data), max(1, len(data) // 40)):
        mangled = bytes(data[:at] + b"\xff\x00\xff" + data[at + 3 :])
        try:
            images.scaled(mangled)
        except ToolError as e:
            assert e.code in (Code.BINARY_FILE, Code.TOO_LARGE)


@each_row("name", ["bmp", "tiff", "ico", "ppm", "tga"])
def test_no_other_decoder_runs(name):
    disguise = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 2000, 10)
    assert failure(picture(name, (64, 64))) is Code.BINARY_FILE
    assert failure(disguise + picture(name, (64, 64))) is Code.BINARY_FILE


@pytest.mark.slow
async def test_a_picture_at_the_limit_is_scaled_in_the_worker():
    data = png_that_declares(7000, 7000, bytes(7000 * 21001))
    async with Worker() as worker:
        small, mime = await worker.call(images.scaled, data, deadline=60)
        assert (mime, opened(small)) == ("image/png", ("png", (1568, 1568)))
        with pytest.raises(ToolError) as caught:
            await worker.call(images.scaled, png_that_declares(50_000, 50_000), deadline=60)
        assert caught.value.code is Code.TOO_LARGE


def test_pillow_is_loaded_only_when_an_image_is_scaled():
    import subprocess

    code = (
        "import sys; from toolbox_mcp.tools.read import _images as images, _pdf as pdf; images.header(b'GIF89a' + b'1' * 9); "
        "print([m for m in ('PIL', 'pypdf') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"
