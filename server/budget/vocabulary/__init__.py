"""The token tables of OpenAI's encodings, on board and checked by hash, so that nothing is downloaded.

docs/decisions/tokenizer.md says where the tables come from and how a file is made.
"""

import binascii
import hashlib
import zlib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

LONGEST_TOKEN = 128
"""Bytes of the longest token in every table here; a token never stands for more characters than that."""


class VocabularyError(ValueError):
    """A table on board is missing or is not the one that tiktoken publishes."""


@dataclass(frozen=True)
class Table:
    """One published table: the file on board, how many of its ranks count, and how text is split before it applies.

    sha256 is the hash that tiktoken expects of the `.tiktoken` file it would download.
    """

    file: str
    ranks: int
    sha256: str
    pattern: str


_GPT2_PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""

_R50K = Table(
    "p50k_base.zlib", 50256, "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930", _GPT2_PATTERN
)
_P50K = Table(
    "p50k_base.zlib", 50281, "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069", _GPT2_PATTERN
)
_CL100K = Table(
    "cl100k_base.zlib",
    100256,
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
)
_O200K = Table(
    "o200k_base.zlib",
    199998,
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
    r"""|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
    r"""|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
)

TABLES = {
    "o200k_base": _O200K,
    "o200k_harmony": _O200K,
    "cl100k_base": _CL100K,
    "p50k_base": _P50K,
    "p50k_edit": _P50K,
    "r50k_base": _R50K,
    "gpt2": _R50K,
}
"""Encoding name to table. Encodings that differ only in special tokens share one: text is counted as ordinary text."""


def load(name: str) -> "tiktoken.Encoding":
    """Build tiktoken's encoding of that name from the table on board.

    Takes about 0.25 s and 70 MB for o200k_base. Raises VocabularyError when the table is damaged, KeyError for an
    unknown name.
    """
    import tiktoken

    table = TABLES[name]
    ranks = unpack(table, _read(table.file))
    return tiktoken.Encoding(name, pat_str=table.pattern, mergeable_ranks=ranks, special_tokens={})


def unpack(table: Table, packed: bytes) -> dict[bytes, int]:
    """Turn the content of a file on board into token -> rank, and insist on the published hash.

    Unpacked, a file is the number of ranks (4 bytes, big endian), one byte of length for each rank (0 where the rank is
    not used), and the bytes of all tokens one after another.
    """
    try:
        data = zlib.decompress(packed)
    except zlib.error:
        raise _damaged(table) from None
    at = 4 + int.from_bytes(data[:4], "big")
    ranks: dict[bytes, int] = {}
    for rank, length in enumerate(data[4 : min(at, 4 + table.ranks)]):
        if length:
            ranks[data[at : at + length]] = rank
            at += length
    published = b"".join([b"%s %d\n" % (binascii.b2a_base64(token, newline=False), r) for token, r in ranks.items()])
    if hashlib.sha256(published).hexdigest() != table.sha256:
        raise _damaged(table)
    return ranks


def _read(file: str) -> bytes:
    try:
        return files(__name__).joinpath(file).read_bytes()
    except OSError as e:
        raise VocabularyError(f"the vocabulary {file} cannot be read ({e.strerror}); install toolbox-mcp again") from e


def _damaged(table: Table) -> VocabularyError:
    return VocabularyError(f"the vocabulary {table.file} is damaged: its hash is not the published one; install again")
