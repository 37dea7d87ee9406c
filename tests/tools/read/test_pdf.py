import zlib
from io import BytesIO

import pytest
from pypdf import PdfReader, PdfWriter

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.sandbox.isolate.worker import Worker, WorkerMemory, WorkerTimeout
from toolbox_mcp.tools.read import _pdf as pdf


def assembled(objects):
    """A PDF of numbered objects, of which the first is the catalogue."""
    out = b"%PDF-1.7\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        table,
        len(objects) + 1,
        len(out),
    )


def stream(data, extra=b""):
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(data), extra, data)


def drawing(text):
    return b"BT /F1 12 Tf 72 720 Td (%s) Tj ET" % text.encode()


def document(*streams):
    """A PDF with a page for each content stream."""
    pages = [4 + 2 * n for n in range(len(streams))]
    kids = b" ".join(b"%d 0 R" % page for page in pages)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(streams)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for page, content in zip(pages, streams, strict=True):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            b"/Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>" % (page + 1)
        )
        objects.append(content)
    return assembled(objects)


def written(*texts):
    return document(*[stream(drawing(text)) for text in texts])


def locked(data, user, owner):
    writer = PdfWriter(clone_from=PdfReader(BytesIO(data)))
    writer.encrypt(user, owner, algorithm="RC4-128")
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def failure(data, limit=pdf.MAX_CHARACTERS):
    with pytest.raises(ToolError) as caught:
        pdf.extract(data, limit)
    return caught.value


def test_the_text_of_each_page_is_returned():
    assert pdf.extract(written("first page", "", "third")) == ["first page", "", "third"]


def test_compressed_text_is_returned():
    assert pdf.extract(document(stream(zlib.compress(drawing("packed")), b"/Filter /FlateDecode"))) == ["packed"]


def test_extraction_stops_at_the_limit_and_says_so():
    assert pdf.extract(written("a" * 6, "b" * 6, "c" * 6), 10) == ["aaaaaa", "bbbb\n... (text cut at 10 characters)"]


def test_a_file_that_only_forbids_printing_is_read():
    assert pdf.extract(locked(written("open"), "", "owner")) == ["open"]


def test_a_file_that_needs_a_password_is_refused():
    error = failure(locked(written("secret"), "user", "owner"))
    assert (error.code, error.error) == (Code.BINARY_FILE, "the PDF is encrypted and needs a password")


def test_a_file_without_text_is_refused():
    assert "no text" in failure(written("", "")).error


def test_one_broken_page_does_not_hide_the_others():
    broken = stream(b"not deflated", b"/Filter /Unknown")
    assert pdf.extract(document(stream(drawing("fine")), broken)) == ["fine", pdf.UNREADABLE]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"%PDF-1.7",
        b"%PDF-1.7\n" + b"\0" * 1000,
        b"plain text",
        written("x")[:200],
        assembled([b"<< /Type /Catalog >>"]),
        assembled([b"<< /Type /Catalog /Pages 1 0 R >>"]),
        assembled([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>"]),
        assembled([b"<< /Type /Catalog /Pages 2 0 R >>", b"[" * 5000]),
    ],
)
def test_a_damaged_file_is_a_binary_file(data):
    assert failure(data).code is Code.BINARY_FILE


def test_a_file_cut_anywhere_is_text_or_a_binary_file():
    data = written("first", "second")
    for length in range(0, len(data), 37):
        try:
            assert all(page in ("first", "second") for page in pdf.extract(data[:length]))
        except ToolError as e:
            assert e.code is Code.BINARY_FILE


@pytest.fixture
async def worker():
    async with Worker(memory_mb=256) as worker:
        yield worker


@pytest.mark.slow
async def test_a_small_file_with_a_huge_stream_ends_within_the_workers_limits(worker):
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(600)) + packer.flush()
    data = document(stream(bomb, b"/Filter /FlateDecode"))
    assert len(data) < 1 << 20
    with pytest.raises((ToolError, WorkerMemory, WorkerTimeout)):
        await worker.call(pdf.extract, data, pdf.MAX_CHARACTERS, deadline=5)
    assert await worker.call(pdf.extract, written("still here"), 100, deadline=20) == ["still here"]


async def test_filters_upon_filters_end_within_the_workers_limits(worker):
    data = b" " * (1 << 20)
    for _ in range(5):
        data = zlib.compress(data)
    nested = stream(data, b"/Filter [%s]" % (b"/FlateDecode " * 5000))
    with pytest.raises((ToolError, WorkerMemory, WorkerTimeout)):
        await worker.call(pdf.extract, document(nested), pdf.MAX_CHARACTERS, deadline=5)


async def test_a_page_that_never_ends_is_killed_at_the_deadline(worker):
    endless = stream(b"BT /F1 12 Tf " + b"(x) Tj " * 600_000 + b"ET")
    with pytest.raises((WorkerTimeout, WorkerMemory)):
        await worker.call(pdf.extract, document(*[endless] * 3), 1 << 30, deadline=0.5)


async def test_the_pages_of_a_pdf_are_read_by_content_and_by_name(call, project):
    (project / "by-content").write_bytes(written("one", "two"))
    assert await call("read_file", path="by-content") == "--- page 1 ---\none\n--- page 2 ---\ntwo"
    for name in ("plain.pdf", "PLAIN.PDF"):
        (project / name).write_text("this is no PDF\n")
        assert await call.code("read_file", path=name) == "binary_file"
    assert await call.code("read_file", path="by-content", start_match=["one"]) == "binary_file"
    (project / "behind-junk").write_bytes(b"\x00\xfe\xff junk\n" + written("one"))
    assert await call("read_file", path="behind-junk") == "--- page 1 ---\none"


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"start_line": 2, "end_line": 3}, "one\n--- page 2 ---"),
        ({"start_line": 4, "end_line": 9, "numbered": True}, "4\ttwo"),
        ({"end_line": 1}, "--- page 1 ---"),
        ({"tail": 1, "start_line": 2}, "two"),
        ({"tail": 9, "numbered": True}, "1\t--- page 1 ---\n2\tone\n3\t--- page 2 ---\n4\ttwo"),
        ({"numbered": True}, "1\t--- page 1 ---\n2\tone\n3\t--- page 2 ---\n4\ttwo"),
        ({"start_line": 5}, "start_line 5 is beyond the end of the text"),
        ({"start_line": 3, "end_line": 2}, "start_line 3 is above end_line 2"),
    ],
)
async def test_the_lines_of_a_pdf_are_those_of_its_text(call, project, arguments, answer):
    (project / "f").write_bytes(written("one", "two"))
    got = await call("read_file", path="f", **arguments)
    assert (got["error"] if isinstance(got, dict) else got) == answer


async def test_the_cut_of_a_long_pdf_says_where_to_go_on(call, project):
    call.tokens = 100
    (project / "f").write_bytes(written(*(f"the text of page {number}" for number in range(1, 101))))
    *shown, marker = (await call("read_file", path="f")).split("\n")
    start = len(shown) + 1
    assert marker == f"[lines 1-{len(shown)} of 200; continue with start_line={start}]"
    assert (await call("read_file", path="f", start_line=start, end_line=start + 1)).startswith(
        f"--- page {start // 2 + 1} ---"
    )


@pytest.mark.parametrize("text", ["this is about %PDF-1.7\n" * 100, "größe\n%PDF-1.4\n", "a %PDF-".ljust(8191) + "ü"])
@pytest.mark.parametrize("arguments", [{}, {"start_line": 1}, {"tail": 500}])
async def test_text_that_speaks_of_the_mark_of_a_pdf_is_text(call, project, text, arguments):
    (project / "notes.md").write_text(text)
    call.tokens = 10_000
    assert await call("read_file", path="notes.md", **arguments) == text.removesuffix("\n")
    assert "\nencoding: utf-8\n" in await call("file_info", path="notes.md")


async def test_what_a_pdf_hides_in_its_text_is_shown(call, project):
    (project / "f.pdf").write_bytes(written("a\x1b[31mb"))
    assert await call("read_file", path="f.pdf") == "--- page 1 ---\na<U+001B>[31mb"
