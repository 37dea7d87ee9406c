"""What holds for every text, encoding and line end; tried on those that hypothesis thinks of."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.path_jail.roots import Roots
from toolbox_mcp.tools.edit._lines import Block, Document
from toolbox_mcp.tools.edit._load import edit
from toolbox_mcp.tools.edit._plan import _in_text, literal
from toolbox_mcp.tools.edit._regex import parsed, substituted
from toolbox_mcp.tools.edit._replace import NoMatch, NormalizedText
from toolbox_mcp.tools.undo.journal import History
from toolbox_mcp.tools.undo.revert import revert

characters = st.sampled_from(
    ["a", "b", " ", "\t", "\n", "\r\n", "\r", "é", "\u4e2d", "\U0001f600", "\ufeff", "$", "\\", "\u2028", "\x0b"]
)
texts = st.lists(characters, max_size=30).map("".join)
encodings = st.sampled_from(
    [("utf-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")]
)
latin = st.lists(
    st.sampled_from([b"a", b"b", b"\n", b"\r\n", b"\xe9", b"\xc3\xa9", b"\xff", b"\x80"]), max_size=30
).map(b"".join)


@contextmanager
def file(data: bytes) -> Iterator[tuple[Roots, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f")
        path.write_bytes(data)
        path.chmod(0o640)
        roots = Roots([folder])
        try:
            yield roots, path
        finally:
            roots.close()


def encoded(text: str, encoding: tuple[str, bytes]) -> bytes:
    return encoding[1] + text.encode(encoding[0])


@given(before=texts, old=texts, after=texts, new=texts, encoding=encodings)
def test_bytes_outside_the_replaced_span_stay_and_undo_gives_back_all(before, old, after, new, encoding):
    # Glued to a CR, a LF would be another line end, and a span may not begin or end inside of one.
    assume(not (before.endswith("\r") or old.endswith("\r")))
    assume(encoding[1] or not (before + old + after).startswith("\ufeff"))
    data = encoded(before + old + after, encoding)
    lf = (before + old + after).replace("\r\n", "\n")
    sought = old.replace("\r\n", "\n")
    assume(sought and lf.count(sought) == 1 and lf.find(sought) == len(before.replace("\r\n", "\n")))
    assume(lf.find(sought, lf.find(sought) + 1) < 0)
    ends = before + old + after
    crlf = ends.count("\r\n")
    line_end = "\r\n" if crlf > ends.count("\n") - crlf else "\n"
    inserted = new.replace("\r\n", "\n").replace("\n", line_end)
    with file(data) as (roots, path):
        history = History()
        change = lambda f: (NormalizedText(f.text.text).replace(old, new, f.text.line_end, every=False).text, new)
        try:
            edit(roots.place("f"), None, history.journal("edit_file", 2**20), change)
        except ToolError as e:
            assert e.code == "no_change"
            assert path.read_bytes() == data
            return
        assert path.read_bytes() == encoded(before, encoding) + inserted.encode(encoding[0]) + after.encode(encoding[0])
        revert(history, None, history.journal("undo", 2**20))
        assert path.read_bytes() == data
        assert path.stat().st_mode & 0o7777 == 0o640
        assert os.listdir(path.parent) == ["f"]


@given(data=latin, new=st.sampled_from(["", "x", "x\ny"]))
def test_bytes_that_are_no_text_stay(data, new):
    with file(data) as (roots, path):
        history = History()
        try:
            edit(
                roots.place("f"),
                None,
                history.journal("edit_file", 2**20),
                lambda f: (NormalizedText(f.text.text).replace("a", new, f.text.line_end, every=True).text, new),
            )
        except NoMatch:
            assert path.read_bytes() == data
            return
        crlf = data.count(b"\r\n")
        line_end = b"\r\n" if crlf > data.count(b"\n") - crlf else b"\n"
        assert path.read_bytes() == data.replace(b"a", new.encode().replace(b"\n", line_end))
        revert(history, None, history.journal("undo", 2**20))
        assert path.read_bytes() == data


@given(data=st.one_of(latin, st.builds(encoded, texts, encodings)), old=texts, new=texts)
def test_replacing_in_bytes_is_replacing_in_text(data, old, new):
    assume(old and not data.startswith(b"\0"))
    assert literal(old, new)(data) == _in_text(data, old.replace("\r\n", "\n"), new.replace("\r\n", "\n"))


PATTERNS = st.sampled_from(
    ["a", "a*", "(a)|(b)", "^", "^a", "a?$", "[ab]+", r"\s", r"(\w)(\w)", r"(?=b)", r"\bb", "(a|ab)(b)?"]
)
REPLACEMENTS = st.sampled_from(["", "x", r"<\g<0>>", r"\\", "a\nb"])


@given(text=st.text("ab \n", max_size=30), pattern=PATTERNS, replacement=REPLACEMENTS)
def test_regex_replaces_as_python_does_but_not_behind_the_last_line_end(text, pattern, replacement):
    [(count, after)] = substituted(pattern, False, False, parsed(replacement), 2.0, [text.encode()])
    spans = []

    def one(found):
        if found.span() == (len(text), len(text)) and (text.endswith("\n") or not text):
            return ""
        spans.append(found.span())
        return found.expand(replacement)

    expected = re.sub(pattern, one, text, flags=re.MULTILINE) if text else text
    assert count == len(spans)
    assert (text.encode() if after is None else after).decode() == expected


lines = st.lists(st.sampled_from(["a", "  a", "b\t", "", "c", "é"]), max_size=8)
line_ends = st.sampled_from(["\n", "\r\n"])


@given(content=lines, ends=st.lists(line_ends, min_size=8, max_size=8), final=st.booleans(), data=st.data())
def test_lines_outside_an_insertion_stay_with_their_ends(content, ends, final, data):
    pairs = list(zip(content, ends, strict=False))
    text = "".join(line + end for line, end in pairs)
    if pairs and not final:
        assume(content[-1] != "")
        text = text[: -len(pairs[-1][1])]
        pairs[-1] = (content[-1], None)
    majority = "\r\n" if text.count("\r\n") > text.count("\n") / 2 else "\n"
    document = Document(text, majority)
    assert document.count == len(content)
    at = data.draw(st.integers(0, len(content)))
    added = data.draw(lines)
    rows = [line + (end or majority) for line, end in [*pairs[:at], *((line, None) for line in added), *pairs[at:]]]
    if rows and pairs and not final:
        rows[-1] = rows[-1].removesuffix("\n").removesuffix("\r")
    assert document.insert(at, added).text == "".join(rows)


@given(content=lines, block=st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=3))
def test_a_block_is_found_where_its_trimmed_lines_are(content, block):
    text = "".join(line + "\n" for line in content)
    document = Document(text, "\n")
    trimmed = [line.strip() for line in content]
    starts = [i for i in range(len(content) - len(block) + 1) if trimmed[i : i + len(block)] == block]
    overlap = any(b - a < len(block) for a, b in pairwise(starts))
    try:
        found = document.find(Block(block), max(1, len(starts)))
    except NoMatch:
        assert not starts
    except ToolError:
        assert overlap
    else:
        assert found == starts
        assert not overlap
