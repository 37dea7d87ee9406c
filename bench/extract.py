"""What web_fetch keeps of a page: F1 of its words against the text that a reader came for, beside two other extractors.

    pip install readability-lxml jusText
    python bench/extract.py

The pages are made here, of the kinds that a model reads: articles, documentation, forum threads and listings. Each stands between navigation, teasers, cookie banners and a footer. Words are compared as a bag, in lower case.
"""

import html
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from itertools import chain
from random import Random

from toolbox_mcp.tools.web._readable import readable

WORDS = [
    "water",
    "house",
    "light",
    "stone",
    "paper",
    "river",
    "small",
    "green",
    "often",
    "never",
    "under",
    "over",
    "between",
    "during",
    "after",
    "before",
    "because",
    "however",
    "people",
    "system",
    "number",
    "point",
    "world",
    "group",
    "problem",
    "service",
    "company",
    "program",
    "question",
    "government",
    "night",
    "place",
    "week",
    "case",
    "week",
    "right",
    "method",
    "result",
    "value",
    "function",
    "module",
    "server",
    "client",
    "request",
    "answer",
    "field",
    "table",
    "index",
    "record",
    "cache",
    "window",
    "kernel",
    "thread",
    "process",
]
PAGES = 12
"""Pages of each kind."""


def _sentence(random: Random) -> str:
    return " ".join(random.choices(WORDS, k=random.randint(8, 18))).capitalize() + "."


def _paragraphs(random: Random, count: int) -> list[str]:
    return [" ".join(_sentence(random) for _ in range(random.randint(3, 6))) for _ in range(count)]


def _article(random: Random) -> tuple[str, str]:
    text = _paragraphs(random, 7)
    title = _sentence(random)
    body = "".join(f"<p>{one}</p>" for one in text)
    return f"<article><h1>{title}</h1>{body}</article>", "\n".join([title, *text])


def _documentation(random: Random) -> tuple[str, str]:
    parts, kept = [], []
    for _ in range(4):
        title, text = _sentence(random), _paragraphs(random, 2)
        code = "\n".join(f"{a}.{b}({c})" for a, b, c in (random.choices(WORDS, k=3) for _ in range(4)))
        rows = [random.choices(WORDS, k=2) for _ in range(4)]
        table = "".join(f"<tr><td>{a}</td><td>{b}</td></tr>" for a, b in rows)
        parts.append(
            f"<h2>{title}</h2><p>{text[0]}</p><pre><code>{html.escape(code)}</code></pre><p>{text[1]}</p>"
            f"<table><tr><th>name</th><th>meaning</th></tr>{table}</table>"
        )
        kept += [title, *text, code, "name meaning", *(" ".join(row) for row in rows)]
    return f"<main><div class='content'>{''.join(parts)}</div></main>", "\n".join(kept)


def _forum(random: Random) -> tuple[str, str]:
    posts = [_paragraphs(random, 2) for _ in range(5)]
    body = "".join(
        f"<div class='post'><div class='post-body'>{''.join(f'<p>{one}</p>' for one in post)}</div></div>"
        for post in posts
    )
    title = _sentence(random)
    return f"<main><h1>{title}</h1><div class='thread'>{body}</div></main>", "\n".join(
        [title, *chain.from_iterable(posts)]
    )


def _listing(random: Random) -> tuple[str, str]:
    items = [(_sentence(random), _sentence(random)) for _ in range(12)]
    body = "".join(f"<li><a href='/{n}'>{title}</a><p>{text}</p></li>" for n, (title, text) in enumerate(items))
    return f"<main><h1>Results</h1><ul>{body}</ul></main>", "\n".join(["Results", *(" ".join(item) for item in items)])


KINDS: dict[str, Callable[[Random], tuple[str, str]]] = {
    "article": _article,
    "documentation": _documentation,
    "forum": _forum,
    "listing": _listing,
}


def page(kind: str, seed: int) -> tuple[bytes, str]:
    """Return a page and the text that a reader came for."""
    random = Random(seed)
    main, text = KINDS[kind](random)
    nav = "".join(f"<li><a href='/{word}'>{word}</a></li>" for word in random.choices(WORDS, k=20))
    teasers = "".join(f"<a href='/{n}'>{_sentence(random)}</a>" for n in range(6))
    return (
        f"<!doctype html><html><head><title>{kind}</title><script>var x = 1</script></head><body>"
        f"<header><nav><ul>{nav}</ul></nav></header><div class='cookie-banner'>We use cookies <button>Accept</button></div>"
        f"{main}<aside class='related'>{teasers}</aside><footer>Copyright, terms, privacy</footer></body></html>"
    ).encode(), text


def f1(found: str, wanted: str) -> float:
    """Return the F1 of two texts as bags of words."""
    a, b = (Counter(re.findall(r"\w+", text.lower())) for text in (found, wanted))
    common = sum((a & b).values())
    return 2 * common / (a.total() + b.total()) if common else 0.0


def _readability(data: bytes) -> str:
    found = import_module("readability").Document(data.decode()).summary()
    return str(import_module("lxml.html").fromstring(found).text_content())


def _justext(data: bytes) -> str:
    justext = import_module("justext")
    found = justext.justext(data, justext.get_stoplist("English"))
    return "\n".join(one.text for one in found if not one.is_boilerplate)


def main() -> int:
    """Print the F1 of each extractor by kind of page, and its speed."""
    extractors: dict[str, Callable[[bytes], str]] = {
        "web_fetch": lambda data: readable(data, "text/html; charset=utf-8", "http://example.com/"),
        "readability-lxml": _readability,
        "jusText": _justext,
    }
    for name, extract in extractors.items():
        try:
            extract(page("article", 0)[0])
        except ImportError as e:
            print(f"{name}: not installed ({e})")
            continue
        scores, size, began = {}, 0, time.perf_counter()
        for kind in KINDS:
            pages = [page(kind, seed) for seed in range(PAGES)]
            size += sum(len(data) for data, _ in pages)
            scores[kind] = statistics.mean(f1(extract(data), text) for data, text in pages)
        seconds = time.perf_counter() - began
        rows = "  ".join(f"{kind} {score:.3f}" for kind, score in scores.items())
        print(f"{name:17} {statistics.mean(scores.values()):.3f}  {rows}  {size / 1e6 / seconds:.1f} MB/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
