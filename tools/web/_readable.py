"""What a model reads of a page. Runs in the worker, where markup that hangs or blows up is killed with it."""

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

MAX_TEXT = 4_000_000
"""Characters of readable text of one page."""

_CHARSETS = re.compile(
    r"utf-?8|utf-?16(?:le|be)?|us-ascii|ascii|latin-?1|iso-?8859-?\d{1,2}|windows-?125\d|cp125\d|gb2312|gbk|gb18030|big5|shift[_-]?jis|"
    r"euc-(?:jp|kr)|koi8-[ru]|mac-?roman|tis-620"
)
"""Charsets that are decoded as they are named; of any other the page is read as UTF-8. Python knows some that are no charsets."""


def decoded(data: bytes, content_type: str) -> str:
    """Return the text of a body by its byte order mark, the charset of its header or of its first bytes, else UTF-8."""
    for mark, name in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(name, "replace")
    named = re.search(r"charset=[\"']?([\w-]{1,40})", content_type, re.IGNORECASE)
    if named is None and "html" in content_type:
        inside = re.search(rb"<meta[^>]{0,200}charset=[\"']?([\w-]{1,40})", data[:4096], re.IGNORECASE)
        # As browsers do: what could be read as ASCII up to here is no UTF-16.
        named = re.match(r"(?!utf-?16)(.+)", inside[1].decode(), re.IGNORECASE) if inside else None
    charset = named[1].lower() if named and _CHARSETS.fullmatch(named[1].lower()) else "utf-8"
    try:
        return data.decode(charset, "replace")
    except LookupError:
        return data.decode("utf-8", "replace")


def readable(data: bytes, content_type: str, url: str) -> str:
    """Return an HTML page as Markdown, a feed as a list, JSON indented, and other text as it is."""
    text = decoded(data, content_type)
    kind = content_type.partition(";")[0].strip().lower()
    if kind.endswith(("json", "+json")):
        return pretty(text)
    if "html" in kind:
        return page(text, url)[:MAX_TEXT]
    if kind.endswith("xml") and (entries := feed(text)):
        return entries[:MAX_TEXT]
    return text[:MAX_TEXT]


def pretty(text: str) -> str:
    """Return JSON indented by two, numbers and repeated keys as they are; a text that is none as it is."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text[:MAX_TEXT]
    parts: list[str] = []
    depth = size = 0
    for word in _JSON.findall(text):
        if word in ("[", "{"):
            depth += 1
            part = f"{word}\n{'  ' * depth}"
        elif word in ("]", "}"):
            depth -= 1
            part = f"\n{'  ' * depth}{word}"
        elif word == ",":
            part = f",\n{'  ' * depth}"
        elif word == ":":
            part = ": "
        elif word[0] in "[{":
            part = word[0] + word[-1]
        else:
            part = json.dumps(json.loads(word), ensure_ascii=False) if "\\u" in word else word
        parts.append(part)
        size += len(part)
        if size > MAX_TEXT:
            break
    return "".join(parts)[:MAX_TEXT]


_JSON = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|\[\s*\]|\{\s*\}|[\[\]{},:]|[^\s\[\]{},:"]+')


_PART = 0.5
"""What is extracted is less than this part of the page's own `main` only where that holds many entries; a guess."""


def page(text: str, url: str) -> str:
    """Return the title and the main content of a page, else all of its text."""
    import trafilatura

    named = re.search(r"<title(?:\s[^>]{0,200})?>([^<]{1,2000})<", text, re.IGNORECASE)
    title = " ".join(unescape(named[1]).split())[:300] if named else ""
    tree = trafilatura.load_html(text)
    for each in tree.xpath("//*[@hidden or @style]") if tree is not None else ():
        # What nobody sees is nothing that the page says; a whole page may wait for its script.
        if each.tag not in ("html", "body") and _is_hidden(each):
            each.clear(keep_tail=True)
    mains: list[Any] = tree.xpath("//main | //*[@role='main']") if tree is not None else []
    main = _lines(mains[0]) if len(mains) == 1 else ""
    body = trafilatura.extract(
        tree,
        url=url,
        output_format="markdown",
        include_links=True,
        include_formatting=True,
        include_tables=True,
        include_comments=True,
        favor_recall=True,
        deduplicate=False,
    )
    if body and len(body) < len(main) * _PART:
        # Of a thread or a list one entry was taken for all.
        body = main
    if not body or len(body) < 80:
        whole = everything(text)
        body = whole if len(whole) > len(body or "") else body
    body = (body or "").strip()
    first = body.partition("\n")[0].lstrip("# ").strip()
    parts = [f"# {title}" if title and first != title else "", body or "(the page has no text without its scripts)"]
    return "\n\n".join(filter(None, parts))


def _is_hidden(element: Any) -> bool:
    if element.get("hidden", "until-found").lower() != "until-found":
        return True
    return re.search(r"display\s*:\s*none|visibility\s*:\s*hidden", element.get("style", ""), re.IGNORECASE) is not None


def everything(text: str) -> str:
    """Return all text of a page, a line for each block."""
    from lxml import html

    try:
        tree = html.document_fromstring(text.encode("utf-8", "replace"), parser=html.HTMLParser(encoding="utf-8"))
    except (ValueError, html.etree.LxmlError):
        return ""
    return _lines(tree)


def _lines(tree: Any) -> str:
    lines = (" ".join(line.split()) for line in "".join(_texts(tree)).splitlines())
    return "\n".join(filter(None, lines))


_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "br",
        "dd",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "td",
        "th",
        "tr",
        "ul",
        "title",
    ]
)


def _texts(tree: Any) -> Iterator[str]:
    """Yield the texts of a tree in their order; with a stack of its own, as pages nest deeper than Python."""
    stack: list[tuple[Any, bool]] = [(tree, False)]
    while stack:
        node, is_over = stack.pop()
        name = node.tag if isinstance(node.tag, str) else ""
        if is_over:
            if name in _BLOCKS:
                yield "\n"
            yield node.tail or ""
            continue
        stack.append((node, True))
        if name in ("script", "style", "noscript", "template", "head", "svg") or not name:
            continue
        if name in _BLOCKS:
            yield "\n"
        yield node.text or ""
        stack.extend((child, False) for child in reversed(node))


def feed(text: str) -> str:
    """Return an RSS or Atom feed as a list of titles, links and dates; empty for other XML."""
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, huge_tree=False, recover=True, dtd_validation=False
    )
    try:
        tree = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except (ValueError, etree.LxmlError):
        return ""
    if tree is None or etree.QName(tree).localname not in ("rss", "feed", "RDF"):
        return ""
    channel = tree.find("{*}channel")
    lines = [f"# {_child(tree if channel is None else channel, 'title')}"]
    for entry in tree.iter("{*}item", "{*}entry", "item", "entry"):
        date = _child(entry, "pubDate") or _child(entry, "updated") or _child(entry, "date")
        lines.append(f"- {_child(entry, 'title')}{f' ({date})' if date else ''}\n  {_link(entry)}".rstrip())
        summary = re.sub(r"<[^>]{0,1000}>", " ", _child(entry, "description") or _child(entry, "summary"))
        if summary.strip():
            lines.append(f"  {' '.join(unescape(summary).split())[:300]}")
    return "\n".join(lines)


def _child(node: Any, name: str) -> str:
    found = node.find(f"{{*}}{name}")
    found = node.find(name) if found is None else found
    return " ".join("".join(found.itertext()).split()) if found is not None else ""


def _link(entry: Any) -> str:
    for each in (*entry.findall("{*}link"), *entry.findall("link")):
        if each.get("rel", "alternate") == "alternate":
            return each.get("href") or " ".join((each.text or "").split())
    return ""
