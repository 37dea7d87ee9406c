"""Text from outside: shown, cleaned, decoded, written back."""

import codecs
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each_row
from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.safety.text import IncrementalCleaner, clean, decode, encode_like, is_binary, visible, visible_name


@each_row(
    ("text", "shown"),
    [
        ("", ""),
        ("a\tb\r\nc\rd\n", "a\tb\r\nc\rd\n"),
        ("\x1b[31m", "<U+001B>[31m"),
        ("\x00\x08\x0b\x7f\x85\x9b", "<U+0000><U+0008><U+000B><U+007F><U+0085><U+009B>"),
        ("\u202eevil\u2066\u200f\u061c", "<U+202E>evil<U+2066><U+200F><U+061C>"),
        ("\udcff", "<U+DCFF>"),
        ("ü 漢 🎉\u00a0\ufeff", "ü 漢 🎉\u00a0<U+FEFF>"),
        ("pay\u200bload\u2060", "pay<U+200B>load<U+2060>"),
        ("x\U000e0041\U000e0042\U000e007f", "x<U+E0041><U+E0042><U+E007F>"),
        ("one\u2028two\u2029", "one<U+2028>two<U+2029>"),
        ("a\u200db", "a<U+200D>b"),
        ("é\u200d\u200cé", "é<U+200D><U+200C>é"),
        ("❤\ufe0f\ufe0f\ufe01\U000e0100", "❤\ufe0f<U+FE0F><U+FE01><U+E0100>"),
        ("\u3164\u115f\uffa0\u00ad\u034f", "<U+3164><U+115F><U+FFA0><U+00AD><U+034F>"),
        ("👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3", "👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3"),
        ("می\u200cخواهم क्\u200dष", "می\u200cخواهم क्\u200dष"),
    ],
)
def test_shows_what_cannot_be_seen(text, shown):
    assert visible(text) == shown


@given(st.text(max_size=200))
def test_what_is_shown_can_be_sent_and_holds_no_controls(text):
    shown = visible(text + "\ud800")
    shown.encode()
    assert not [c for c in shown if (c < " " and c not in "\t\n\r") or "\x7f" <= c <= "\x9f" or c in "\u202e\u2066"]


INVISIBLE = [
    *"\u00ad\u034f\u115f\u180b\u200b\u200c\u200d\u2028\u2029\u2060\u2064\u3164\ufe00\ufe0f\ufeff\ufff9\U0001d173\U000e0001\U000e0041\U000e01ef"
]


@each_row("character", INVISIBLE)
def test_what_is_invisible_is_shown_in_content_and_names_and_left_out_of_output(character):
    assert visible(f"a{character}b") == visible_name(f"a{character}b") == f"a<U+{ord(character):04X}>b"
    assert clean(f"a{character * 3}b") == "ab"


def test_a_name_stays_on_its_line():
    assert visible_name("a\nb\tc\r\x1b\u202e\udcff") == "a<U+000A>b<U+0009>c<U+000D><U+001B><U+202E>\ufffd"


CLEANED = [
    ("", ""),
    ("a\tb\r\nc\n", "a\tb\nc\n"),
    ("10%\r20%\r100%\n", "10%\n20%\n100%\n"),
    ("a\r\r\nb", "a\nb"),
    ("a\r\x1b[K\nb", "a\nb"),
    ("\x1b[1;31mred\x1b[0m", "red"),
    ("\x9b31mred", "red"),
    ("\x1b[?25l\x1b[38;2;1;2;3mx\x1b[ q", "x"),
    ("\x1b]0;title\x07x", "x"),
    ("\x1b]0;title\x9cx", "x"),
    ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("\x1b]0;never closed\nnext", "0;never closed\nnext"),
    ("\x1bPq#0\x1b\\y", "y"),
    ("\x1b(B\x1b=\x1bMz", "z"),
    ("\x1b", ""),
    ("\x9done\x9dtwo\x07x", "onex"),
    ("\x00\x00\x1b[31m\x07\x00red\x00", "red"),
    ("a\x00\x08\x7f\x85b", "ab"),
    ("\u202eevil\u2066\u200f\u061c", "evil"),
    ("ü 漢 🎉\u200d", "ü 漢 🎉\u200d"),
    ("h\U000e0041\u200bi\u2028", "hi"),
    ("x\u200d\u200c\u200d\u200cy", "xy"),
]


@each_row(("text", "result"), CLEANED)
def test_removes_what_is_not_text(text, result):
    assert clean(text) == result


NASTY = st.text(alphabet="\u200d\ufe0f\u200b\x1b\x9b\x9d\x9c[]()P0;mA\x07\\\n\r\x00\u202eü", max_size=80)


@given(NASTY)
def test_nothing_that_controls_a_terminal_is_left(text):
    assert not set(clean(text)) & set("\x1b\x9b\x9d\x07\x00\u202e\r")


@each_row("piece", ["\x1b[", "\x1b]", "\x1b[0", "\x1b]0;", "\x1b(", "\x1bP", "\r", "\x1b]" + "0" * 5000])
def test_a_hostile_megabyte_takes_one_pass(piece):
    text = piece * (300_000 // len(piece)) + "0" * 300_000
    assert len(clean(text)) <= len(text)


@given(st.one_of(NASTY.map(str.encode), st.binary(max_size=80)), st.lists(st.integers(0, 80), max_size=8))
def test_the_pieces_of_a_stream_give_what_the_whole_gives(data, cuts):
    cleaner = IncrementalCleaner()
    edges = [0, *sorted(cuts), len(data)]
    pieces = [cleaner.feed(data[a:b]) for a, b in itertools.pairwise(edges)]
    assert "".join(pieces) + cleaner.end() == clean(data.decode("utf-8", "replace"))


@each_row(("text", "result"), [*CLEANED, ("\x1b]" + "x" * 5000 + "\x07", None)])
@each_row("size", [1, 2, 3, 1000, 4097])
def test_a_stream_is_cleaned_wherever_it_is_cut(text, result, size):
    data = text.encode()
    cleaner = IncrementalCleaner()
    pieces = [cleaner.feed(data[at : at + size]) for at in range(0, len(data), size)]
    assert "".join(pieces) + cleaner.end() == (clean(text) if result is None else result)


def test_a_stream_is_not_held_back_without_need():
    cleaner = IncrementalCleaner()
    assert cleaner.feed("a\n€".encode()[:-1]) == "a\n"
    assert cleaner.feed("€".encode()[-1:]) == "€"
    assert cleaner.feed(b"x\x1b]" + b"y" * 10_000) == "x" + "y" * 10_000


def test_a_stream_holds_back_little(monkeypatch):
    cleaner = IncrementalCleaner()
    fed = given = 0
    for _ in range(1000):
        given += len(cleaner.feed(b"\x1b]" + b"y" * 98))
        fed += 98
    assert fed - given <= 5000


@each_row(
    ("data", "text", "encoding", "bom", "newline", "final_newline", "lossy"),
    [
        (b"", "", "utf-8", False, "none", False, False),
        (b"a", "a", "utf-8", False, "none", False, False),
        (b"a\nb\n", "a\nb\n", "utf-8", False, "lf", True, False),
        (b"a\r\nb", "a\r\nb", "utf-8", False, "crlf", False, False),
        (b"a\r\nb\n", "a\r\nb\n", "utf-8", False, "mixed", True, False),
        (b"a\rb", "a\rb", "utf-8", False, "none", False, False),
        (b"\xef\xbb\xbfa\n", "a\n", "utf-8", True, "lf", True, False),
        (codecs.BOM_UTF16_LE + "ü\r\n".encode("utf-16-le"), "ü\r\n", "utf-16-le", True, "crlf", True, False),
        (codecs.BOM_UTF16_BE + "ü\n".encode("utf-16-be"), "ü\n", "utf-16-be", True, "lf", True, False),
        (b"a\xff\n", "a\ufffd\n", "utf-8", False, "lf", True, True),
        (b"\xff\xfea", "\ufffd", "utf-16-le", True, "none", False, True),
    ],
)
def test_tells_what_a_text_is_made_of(data, text, encoding, bom, newline, final_newline, lossy):
    found = decode(data)
    assert (found.text, found.encoding, found.bom) == (text, encoding, bom)
    assert (found.newline, found.final_newline, found.lossy) == (newline, final_newline, lossy)


@given(st.binary(max_size=60), st.sampled_from([b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE]))
def test_writes_back_the_same_bytes(data, mark):
    try:
        found = decode(mark + data, exact=True)
    except ToolError as e:
        assert e.code is Code.BINARY_FILE
        assert (mark + data).startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    else:
        assert encode_like(found.text, found) == mark + data


def test_an_edit_keeps_the_bytes_around_it():
    data = b"caf\xe9 \xff old\r\nx\n"
    found = decode(data, exact=True)
    assert encode_like(found.text.replace("old", "new"), found) == b"caf\xe9 \xff new\r\nx\n"


def test_refuses_to_write_what_the_encoding_has_not():
    with pytest.raises(ToolError) as caught:
        encode_like("\udcff", decode(b"a"))
    assert caught.value.code is Code.BINARY_FILE


@each_row(("data", "end"), [(b"a\r\nb\r\nc\n", "\r\n"), (b"a\r\nb\nc\n", "\n"), (b"a\r\nb\n", "\n"), (b"", "\n")])
def test_inserted_lines_end_like_most(data, end):
    assert decode(data).line_end == end
    assert "\r\n" not in decode(data).lf


@each_row(
    ("head", "binary"),
    [
        (b"", False),
        (b"text\n", False),
        (b"a\0b", True),
        (b"\xff\xfea\0", False),
        (b"\xfe\xff\0a", False),
        (b"a" * 8191 + b"\0", True),
        (b"a" * 8192 + b"\0", False),
        (b"\xff\xd8\xff\xe0", False),
        ("a\n".encode("utf-32-le"), True),
        ("\ufeffa\n".encode("utf-32-le"), True),
        ("\ufeffa\n".encode("utf-32-be"), True),
        ("\ufeff".encode("utf-16-le"), False),
    ],
)
def test_a_nul_near_the_beginning_means_binary(head, binary):
    assert is_binary(head) == binary
