"""What is kept of a stream."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbox_mcp.sandbox.process.capture import Capture, HeadTailBuffer


def keep(data: bytes, capture: Capture, step: int = 1):
    keeper = HeadTailBuffer(capture)
    for start in range(0, len(data), step):
        keeper.feed(data[start : start + step])
    return keeper.done(str)


@given(st.text(), st.integers(1, 7))
def test_text_that_fits_is_unchanged_at_any_chunk_border(text, step):
    data = text.encode("utf-8", "replace")
    assert keep(data, Capture(len(data) // 2, len(data) - len(data) // 2), step).text == data.decode()


@given(st.text(min_size=1), st.integers(0, 9), st.integers(0, 9), st.integers(1, 7))
def test_the_gap_makes_no_replacement_character_and_is_counted(text, head, tail, step):
    data = text.replace("\ufffd", "").encode("utf-8", "replace")
    kept = keep(data, Capture(head, tail), step)
    assert kept.bytes == len(data)
    assert kept.truncated == (len(data) > head + tail)
    if kept.truncated:
        assert "\ufffd" not in kept.text
        assert f"... [{len(data) - len(kept.raw)} bytes dropped] ...\n" in kept.text
        assert len(kept.raw) <= head + tail


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"a\xffb", "a\ufffdb"),
        (b"\xe4\xb8", "\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    ],
)
def test_what_is_not_utf8_becomes_replacement_characters(data, text):
    assert keep(data, Capture(100, 100)).text == text


def test_what_is_held_is_bounded_whatever_comes():
    keeper = HeadTailBuffer(Capture(10, 20))
    for _ in itertools.repeat(None, 1000):
        keeper.feed(b"x" * 33)
        assert len(keeper._head) + len(keeper._tail) <= 10 + 2 * 20 + 33
    assert keeper.done(str).raw == b"x" * 30
