import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tables import each_row
from toolbox_mcp.server.budget.budget import Budget, Fitted
from toolbox_mcp.server.budget.tokenizers import BytePairTokenizer, Cut, QuarterTokenizer, Tokenizer
from toolbox_mcp.server.budget.vocabulary import LONGEST_TOKEN, load

PROSE = "The quick brown fox jumps over the lazy dog, and nobody was told about it until Monday.\n"
WORDS = """the don't HTTP 日本 。 é e\u0301 😀 👨‍👩‍👧 12345 __init__ {} // https://x.y/z?a=b <|endoftext|> \x00 ก็ नमस्ते ===== AAAA
unbelievable \ud83d\ude00 \ud800"""
MARKER = re.compile(r"\n\n\.\.\. \[about (\d+) tokens cut(?:; ([^\]]*))?\] \.\.\.\n\n")

texts = st.lists(st.sampled_from((*WORDS.split(), " ", "\n", "\n\n", "    ", "\t", PROSE)) | st.text(max_size=3)).map(
    "".join
)


class CountingTokenizer(QuarterTokenizer):
    """Notes how many characters it was asked to count."""

    def __init__(self) -> None:
        self.counted = 0

    def count(self, text: str) -> int:
        self.counted += len(text)
        return super().count(text)


class DearTokenizer(QuarterTokenizer):
    """A token a character, and one more for each line break that a count finds between other characters."""

    def count(self, text: str) -> int:
        return len(text) + len(re.findall(r"(?<=[^\n])\n\n(?=[^\n])", text))

    def head(self, text: str, limit: int) -> Cut:
        return Cut(text[:limit], len(text[:limit]))

    def tail(self, text: str, limit: int) -> Cut:
        kept = text[len(text) - limit :] if limit > 0 else ""
        return Cut(kept, len(kept))


@pytest.fixture(scope="module")
def encoding() -> Any:
    return load("o200k_base")


@pytest.fixture(scope="module")
def gpt(encoding: Any) -> Tokenizer:
    return BytePairTokenizer(encoding)


def parts(fitted: Fitted) -> tuple[str, int, str | None, str]:
    """Return head, tokens cut, HOW and tail of an answer that was cut."""
    found = MARKER.search(fitted.text)
    assert found is not None
    return fitted.text[: found.start()], int(found[1]), found[2], fitted.text[found.end() :]


@each_row(
    ("text", "limit", "tokens", "asked"),
    [
        ("", 1, None, 0),
        ("a", 1, None, 0),
        ("a" * 20, 20, None, 0),
        ("é" * 10, 20, None, 0),  # 20 bytes
        ("é" * 11, 20, 3, 11),
        ("a" * 21, 20, 6, 21),
        ("\ud800" * 5, 15, None, 0),
        ("a" * 80, 20, 20, 80),
    ],
)
def test_what_fits_is_unchanged_and_counted_only_when_its_bytes_leave_a_doubt(text, limit, tokens, asked):
    tokenizer = CountingTokenizer()
    assert Budget(limit, tokenizer).fit(text, "never shown") == Fitted(text, tokens, None)
    assert tokenizer.counted == asked


@each_row(("length", "total"), [(LONGEST_TOKEN * 100, 3200), (LONGEST_TOKEN * 100 + 1, 3201)])
def test_more_characters_than_tokens_can_stand_for_are_estimated_from_the_bytes(length, total):
    fitted = Budget(100, QuarterTokenizer()).fit("a" * length)
    assert fitted.truncated is not None
    assert fitted.truncated["tokens"] == total
    wide = Budget(100, QuarterTokenizer()).fit("é" * (length + 1))
    assert wide.truncated is not None
    assert wide.truncated["tokens"] == (2 * (length + 1) + 3) // 4


def test_a_long_text_is_not_counted_as_a_whole():
    tokenizer = CountingTokenizer()
    Budget(100, tokenizer).fit("a" * 50_000_000, "start=1")
    assert tokenizer.counted < 4 * LONGEST_TOKEN * 100


def test_the_marker_stands_between_six_tenths_and_four_tenths_of_what_it_leaves(gpt):
    text = PROSE * 100
    fitted = Budget(100, gpt).fit(text, "start_line=812")
    head, cut, how, tail = parts(fitted)
    total = gpt.count(text)
    room = max(16, gpt.count(f"\n\n... [about {cut} tokens cut; start_line=812] ...\n\n"))
    for_head = (100 - room) * 6 // 10
    assert (head, tail) == (gpt.head(text, for_head).text, gpt.tail(text, 100 - room - for_head).text)
    assert (cut, how) == (total - gpt.count(head) - gpt.count(tail), "start_line=812")
    assert fitted.truncated == {"tokens": total, "cut": cut}
    assert fitted.tokens == gpt.count(fitted.text) <= 100


@each_row("how", [None, "", lambda head: ""])
def test_without_a_way_to_the_rest_the_marker_names_none(how):
    fitted = Budget(100, QuarterTokenizer()).fit("a" * 1000, how)
    assert fitted.text == f"{'a' * 200}\n\n... [about 166 tokens cut] ...\n\n{'a' * 136}"
    assert fitted.truncated == {"tokens": 250, "cut": 166}


def test_the_way_to_the_rest_can_depend_on_the_head_that_is_kept():
    text = "".join(f"line {n}\n" for n in range(1, 1000))
    fitted = Budget(200, QuarterTokenizer()).fit(text, lambda head: f"start_line={head.count(chr(10)) + 1}")
    head, _, how, _ = parts(fitted)
    assert how == f"start_line={head.count(chr(10)) + 1}"


def test_a_long_marker_takes_its_room_from_head_and_tail():
    fitted = Budget(100, QuarterTokenizer()).fit("a" * 1000, "h" * 200)
    head, _, _, tail = parts(fitted)
    room = -(-len(fitted.text[len(head) : len(fitted.text) - len(tail)]) // 4)
    assert (len(head), len(tail)) == (4 * ((100 - room) * 6 // 10), 4 * (100 - room - (100 - room) * 6 // 10))


@each_row("limit", [1, 2, 16, 17])
def test_a_budget_that_the_marker_would_fill_gives_the_head_alone(limit):
    fitted = Budget(limit, QuarterTokenizer()).fit("abcdefghij" * 20, "start=1")
    assert fitted == Fitted(("abcdefghij" * 20)[: 4 * limit], limit, {"tokens": 50, "cut": 50 - limit})


def test_a_marker_longer_than_the_budget_gives_the_head_alone():
    assert Budget(40, QuarterTokenizer()).fit("a" * 1000, "h" * 1000).text == "a" * 160


def test_the_smallest_budget_with_a_marker_keeps_a_token_of_each_end():
    head, _, _, tail = parts(Budget(18, QuarterTokenizer()).fit("abcd" + "-" * 1000 + "wxyz"))
    assert (head, tail) == ("abcd", "wxyz")


@each_row("limit", [-5, 0, 1])
def test_a_budget_is_never_below_one_token(limit):
    budget = Budget(limit, QuarterTokenizer())
    assert (budget.limit, budget.fit("abcdefgh").text) == (1, "abcd")


def test_what_the_whole_counts_above_its_parts_is_taken_off_the_tail_then_the_head():
    # Head, marker and tail alone are 100 tokens; put together the two blank lines make them 102.
    fitted = Budget(100, DearTokenizer()).fit("a" * 300)
    head, cut, _, tail = parts(fitted)
    room = len(f"\n\n... [about {cut} tokens cut] ...\n\n")
    assert (len(head), len(tail)) == ((100 - room) * 6 // 10 - 1, 100 - room - (100 - room) * 6 // 10 - 1)
    assert fitted.tokens == 100
    assert fitted.truncated == {"tokens": 300, "cut": 300 - len(head) - len(tail)}


def test_a_way_to_the_rest_that_grows_as_the_head_shrinks_still_ends_within_the_budget():
    fitted = Budget(100, DearTokenizer()).fit("a" * 300, lambda head: "h" * (120 - 2 * len(head)))
    assert fitted.text == "a" * 100


@given(text=texts, limit=st.integers(1, 120), how=st.sampled_from([None, "narrow the path", "start_line=812"]))
def test_no_answer_exceeds_its_budget_by_the_count_of_the_tokenizer(gpt, text, limit, how):
    fitted = Budget(limit, gpt).fit(text, how)
    counted = gpt.count(fitted.text)
    assert counted <= limit
    assert fitted.tokens in (None, counted)
    if fitted.truncated is None:
        assert fitted.text == text
        return
    assert gpt.count(text) > limit
    size = len(text.encode(errors="surrogatepass"))
    total = -(-size // 4) if len(text) > LONGEST_TOKEN * limit else gpt.count(text)
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    found = MARKER.search(fitted.text)
    if found is None:
        assert whole.startswith(fitted.text)
        assert fitted.truncated == {"tokens": total, "cut": total - counted}
    else:
        head, cut, words, tail = parts(fitted)
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert words == how
        assert fitted.truncated == {"tokens": total, "cut": cut}
        assert cut == total - gpt.count(head) - gpt.count(tail)


class PlainBudget:
    """The arithmetic of the contract, done slowly, with nothing but tiktoken's own count."""

    def __init__(self, limit: int, how: str | None, encoding: Any) -> None:
        self.limit = limit
        self.how = f"; {how}" if how else ""
        self.count = lambda text: len(encoding.encode_ordinary(text))

    def head(self, text: str, limit: int) -> str:
        return next(text[:end] for end in range(len(text), -1, -1) if self.count(text[:end]) <= limit)

    def tail(self, text: str, limit: int) -> str:
        return next(text[start:] for start in range(len(text) + 1) if self.count(text[start:]) <= limit)

    def between(self, total: int, head: str, tail: str) -> str:
        return f"\n\n... [about {total - self.count(head) - self.count(tail)} tokens cut{self.how}] ...\n\n"

    def answers(self, text: str, total: int) -> list[str]:
        """Return what may be answered: one text for each room with which the marker and the cut agree."""
        found = []
        for room in range(16, self.limit - 1):
            kept = self.limit - room
            head, tail = self.head(text, kept * 3 // 5), self.tail(text, kept - kept * 3 // 5)
            if max(16, self.count(self.between(total, head, tail))) == room:
                found.append(self.shortened(total, head, tail))
        return found or [self.head(text, self.limit)]

    def shortened(self, total: int, head: str, tail: str) -> str:
        from_tail = True
        while self.count(answer := head + self.between(total, head, tail) + tail) > self.limit:
            if (from_tail and tail) or not head:
                tail = self.tail(tail, self.count(tail) - 1)
            else:
                head = self.head(head, self.count(head) - 1)
            from_tail = not from_tail
        return answer


@settings(max_examples=settings().max_examples // 4)
@example(text="𐀀\U00011b00thethethe𐀀𐀀", limit=18, how=None)
@given(
    text=texts, limit=st.sampled_from([1, 2, 17, 18, 19, 20, 24, 30, 45]), how=st.sampled_from([None, "start_line=8"])
)
def test_an_answer_is_what_the_arithmetic_of_the_contract_gives(encoding, text, limit, how):
    text = text[:300]
    plain = PlainBudget(limit, how, encoding)
    size = len(text.encode(errors="surrogatepass"))
    total = -(-size // 4) if len(text) > 128 * limit else plain.count(text)
    fitted = Budget(limit, BytePairTokenizer(encoding)).fit(text, how)
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert fitted.text in ([text] if size <= limit or total <= limit else plain.answers(whole, total))


@pytest.mark.slow
@each_row(
    "text",
    [
        " " * 1_000_000,
        "a" * 1_000_000,
        "\u0301" * 500_000,
        bytes(range(256)).decode(errors="replace") * 4000,
        bytes(range(256)).decode("latin-1") * 4000,
        "😀" * 300_000,
        "👨‍👩‍👧" * 100_000,
        "東京特許許可局" * 50_000,
        "\ud800" * 100_000,
        "\ud83d\ude00" * 100_000,
        "<|endoftext|>" * 50_000,
        "\r\n" * 300_000,
        PROSE * 50_000,
    ],
)
@each_row("limit", [1, 19, 2000])
def test_hostile_text_of_any_size_is_cut_to_the_budget(gpt, text, limit):
    fitted = Budget(limit, gpt).fit(text, "start_line=812")
    assert gpt.count(fitted.text) == fitted.tokens <= limit
    fitted.text.encode()
    if limit == 2000:
        head, _, _, tail = parts(fitted)
        assert fitted.tokens >= 0.8 * limit - 8 or "\u0301" in text
        whole = text[: len(head) * 2].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert whole.startswith(head)
        assert head
        assert tail


@each_row(
    ("stdout", "stderr", "shares"),
    [
        ("", "", (100, 100)),
        ("o" * 50, "e" * 50, (100, 100)),
        ("o" * 300, "e" * 100, (100, 100)),
        ("o" * 400, "", (100, 100)),
        ("o" * 401, "", (100, 0)),
        ("o" * 1000, "e" * 100, (75, 25)),
        ("o" * 100, "e" * 1000, (25, 75)),
        ("o" * 1000, "e" * 1004, (50, 54)),  # the marker leaves 4 of the shorter's 50 tokens unused
        ("o" * 1004, "e" * 1000, (54, 50)),
        ("o" * 201, "e" * 1000, (50, 54)),
        ("o" * 200, "e" * 204, (50, 50)),
    ],
)
def test_the_shorter_stream_gets_up_to_half_and_the_longer_the_rest(stdout, stderr, shares):
    fitted = Budget(164, QuarterTokenizer()).fit_streams(stdout, stderr, "ask for less", "ask for less")
    alone = [
        Budget(share, QuarterTokenizer()).fit(stream, "ask for less")
        for stream, share in zip((stdout, stderr), shares, strict=True)
    ]
    assert [(stream.text, stream.truncated) for stream in fitted] == [(one.text, one.truncated) for one in alone]
    assert sum(QuarterTokenizer().count(stream.text) for stream in fitted) <= 100


@each_row("limit", [1, 64, 65, 66, 67])
def test_streams_share_one_token_at_least(limit):
    fitted = Budget(limit, QuarterTokenizer()).fit_streams("o" * 100, "e" * 200)
    assert sum(stream.tokens or 0 for stream in fitted) == max(1, limit - 64)
    assert all(stream.truncated for stream in fitted)


@given(stdout=texts, stderr=texts, limit=st.integers(1, 200))
def test_streams_never_exceed_what_they_share(gpt, stdout, stderr, limit):
    fitted = Budget(limit, gpt).fit_streams(stdout, stderr)
    assert sum(gpt.count(stream.text) for stream in fitted) <= max(1, limit - 64)
