import base64
import hashlib
import subprocess
import sys
import threading

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken.model import MODEL_PREFIX_TO_ENCODING, MODEL_TO_ENCODING
from tiktoken_ext import openai_public

from tests.tables import each_row
from toolbox_mcp.server.budget.tokenizers import BytePairTokenizer, QuarterTokenizer, encoding_of, tokenizer_for
from toolbox_mcp.server.budget.vocabulary import LONGEST_TOKEN, TABLES, VocabularyError, load, unpack

ENCODINGS = ("o200k_base", "cl100k_base", "p50k_base")

WORDS = """the The HTTP don't it'S ' '' ’ 日本 語 。 、 ひらがな 한국어 é e\u0301 \u0301 😀 👨‍👩‍👧 1 12345 9876543210 _ __init__ () {} / //
https://x.y/z?a=b <|endoftext|> <|fim_prefix|> \x00 \x85 \u00a0 ÀÉ straße Ж привет العربية ก็ नमस्ते - --- ===== AAAA aaaaaa
ABCdefGHI \ufffd unbelievable internationalization ٣ ² Ⅷ ① ǅ ʰ \ud83d\ude00 \ud800 \udfff"""
SPACES = (" ", "  ", "     ", "\n", "\n\n", "\r\n", "\t", "if (x == 1) {\n    return x;\n}\n", "x" * 40)

texts = st.lists(st.sampled_from((*WORDS.split(), *SPACES)) | st.text(max_size=3), max_size=60).map("".join)


@pytest.fixture(scope="module")
def encodings() -> dict[str, tiktoken.Encoding]:
    return {name: load(name) for name in ENCODINGS}


def longest_prefix(encoding: tiktoken.Encoding, text: str, limit: int) -> str:
    return next(text[:end] for end in range(len(text), -1, -1) if len(encoding.encode_ordinary(text[:end])) <= limit)


def longest_suffix(encoding: tiktoken.Encoding, text: str, limit: int) -> str:
    return next(text[at:] for at in range(len(text) + 1) if len(encoding.encode_ordinary(text[at:])) <= limit)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_on_board_is_the_one_that_tiktoken_publishes(name, monkeypatch):
    asked = {}

    def take(url, expected_hash=None):
        asked["hash"] = expected_hash
        return {}

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", take)
    if name != "gpt2":  # published in another form, with the tokens and pattern of r50k_base
        published = openai_public.ENCODING_CONSTRUCTORS[name]()
        assert TABLES[name].pattern == published["pat_str"]
        assert TABLES[name].sha256 == asked["hash"]
    ranks = load(name)._mergeable_ranks
    lines = b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())
    assert hashlib.sha256(lines).hexdigest() == TABLES[name].sha256
    assert max(map(len, ranks)) == LONGEST_TOKEN


def test_gpt2_has_the_pattern_of_r50k_base():
    assert openai_public.r50k_pat_str == TABLES["gpt2"].pattern


@each_row("name", openai_public.ENCODING_CONSTRUCTORS)
def test_every_encoding_of_tiktoken_is_on_board(name):
    assert name in TABLES


@each_row("damage", [b"", b"no zlib", None])
def test_a_damaged_table_is_a_clear_error(damage):
    from importlib.resources import files

    packed = files("toolbox_mcp.server.budget.vocabulary").joinpath("cl100k_base.zlib").read_bytes()
    with pytest.raises(VocabularyError, match=r"p50k_base.zlib is damaged.*install again"):
        unpack(TABLES["p50k_base"], packed if damage is None else damage)


def test_the_vocabulary_is_found_without_a_network_a_cache_or_a_home(tmp_path):
    program = """
import socket, sys
def refuse(*args, **kwargs): raise AssertionError("a socket was made")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
from toolbox_mcp.server.budget.tokenizers import tokenizer_for
for model in ("gpt-4o", "gpt-4", "text-davinci-003", "davinci", "gpt2", "gpt-oss-120b"):
    print(tokenizer_for(model).count("hello world"))
print("requests" in sys.modules)
"""
    env = {"TMPDIR": str(tmp_path), "HOME": str(tmp_path), "TIKTOKEN_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, env=env, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (["2"] * 6 + ["False"], "")
    assert list(tmp_path.iterdir()) == []


def test_tiktoken_is_not_imported_before_a_text_is_counted():
    program = """
import sys
from toolbox_mcp.server.budget.budget import Budget
from toolbox_mcp.server.budget.tokenizers import tokenizer_for
budget = Budget(2000, tokenizer_for("gpt-4o"))
budget.fit("short")
print("tiktoken" in sys.modules)
budget.fit("long" * 1000)
print("tiktoken" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["False", "True"]


@each_row(
    ("model", "encoding"),
    [
        *MODEL_TO_ENCODING.items(),
        *((prefix + "2030-01-01", encoding) for prefix, encoding in MODEL_PREFIX_TO_ENCODING.items()),
        ("o200k_base", "o200k_base"),
        ("r50k_base", "r50k_base"),
        ("claude-sonnet-4-5", None),
        ("gemini-2.5-pro", None),
        ("", None),
        ("../o200k_base", None),
    ],
)
def test_a_model_is_counted_with_its_own_encoding_or_by_characters(model, encoding):
    assert encoding_of(model) == encoding


@each_row(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本語文字", 2), ("\ud800", 1)])
def test_a_model_without_a_vocabulary_has_a_token_for_four_characters(text, tokens):
    assert tokenizer_for("claude-sonnet-4-5").count(text) == tokens


def test_quarters_are_cut_at_four_characters_a_token():
    tokenizer = QuarterTokenizer()
    assert tokenizer.head("abcdefghij", 2).text == "abcdefgh"
    assert tokenizer.tail("abcdefghij", 2).text == "cdefghij"
    assert tokenizer.tail("abcdefghij", 3).text == "abcdefghij"
    assert [tokenizer.head("abc", limit).text + tokenizer.tail("abc", limit).text for limit in (0, -1)] == ["", ""]


def test_threads_that_count_at_once_load_the_vocabulary_once():
    tokenizer = tokenizer_for("gpt-4")
    start, counted = threading.Barrier(4), []

    def count() -> None:
        start.wait(10)
        counted.append((tokenizer.count("hello world"), tokenizer._loaded))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [count for count, _ in counted] == [2] * 4
    assert len({id(loaded) for _, loaded in counted}) == 1


@pytest.mark.parametrize("name", ENCODINGS)
@given(text=texts)
def test_slices_have_the_tokens_of_the_whole(encodings, name, text):
    tokenizer = BytePairTokenizer(encodings[name], slice_size=3)
    assert tokenizer.count(text) == len(encodings[name].encode_ordinary(text))


@pytest.mark.parametrize("name", ENCODINGS)
@given(text=texts.filter(lambda text: text.isprintable() or text.isascii()), share=st.floats(0, 1))
def test_head_and_tail_are_the_longest_that_there_are(encodings, name, text, share):
    tokenizer = BytePairTokenizer(encodings[name])
    limit = int(tokenizer.count(text) * share)
    head, tail = tokenizer.head(text, limit), tokenizer.tail(text, limit)
    assert head.text == longest_prefix(encodings[name], text, limit)
    assert tail.text == longest_suffix(encodings[name], text, limit)
    assert (head.tokens, tail.tokens) == (tokenizer.count(head.text), tokenizer.count(tail.text))


@pytest.mark.slow
@each_row(
    "unit",
    ["a", " ", "1", "=", "日", "😀", "\u0301", "AbC", " \n\t"],
)
@each_row("limit", [1, 7, 40])
def test_head_and_tail_of_a_run_without_a_seam_are_the_longest_too(encodings, unit, limit):
    encoding = encodings["o200k_base"]
    tokenizer = BytePairTokenizer(encoding)
    text = "before it, " + (unit * 900)[:900]
    limit = min(limit, tokenizer.count(text) - 1)
    assert tokenizer.head(text, limit).text == longest_prefix(encoding, text, limit)
    assert tokenizer.tail(text, limit).text == longest_suffix(encoding, text, limit)


@pytest.mark.slow
@each_row(
    "text",
    [" " * 1_000_000, " " * 1_100_000 + "x", "\n" * 1_100_000, "\u00a0" * 1_100_000, "a" * 1_000_000, "A" * 1_000_000],
)
@each_row("name", ENCODINGS)
def test_a_million_equal_characters_are_counted_without_a_panic(encodings, name, text):
    tokenizer = BytePairTokenizer(encodings[name])
    assert len(text) / LONGEST_TOKEN <= tokenizer.count(text) <= 2 * len(text)
    assert 0 < tokenizer.head(text, 10).tokens <= 10
    assert 0 < tokenizer.tail(text, 10).tokens <= 10
