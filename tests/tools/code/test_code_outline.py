import os
import sys
from pathlib import Path

import pytest

from toolbox_mcp.tools.code._languages import LANGUAGES

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_outline_of_a_language_is_the_one_on_file(call, project, language):
    source, outline = (GOLDEN / f"{language}.txt").read_text().split("=== outline\n")
    assert outline.count("\n") >= 10
    name = "source" + LANGUAGES[language].extensions[0]
    (project / name).write_text(source)
    assert await call("code_outline", path=name) == outline.removesuffix("\n")


def test_every_language_has_a_query_file_and_a_golden_one():
    queries = Path(sys.modules["toolbox_mcp.tools.code._languages"].__file__).parent / "queries"
    assert {file.stem for file in queries.glob("*.scm")} == set(LANGUAGES) == {file.stem for file in GOLDEN.iterdir()}


async def test_a_file_tells_its_language_by_name_content_or_first_line(call, project):
    table = {
        "a.py": ("def f(): ...", "1: function f"),
        "a.PYI": ("def f(): ...", "1: function f"),
        "Rakefile": ("def f; end", "1: method f"),
        "tool": ("#!/usr/bin/env -S python3 -u\ndef f(): ...", "2: function f"),
        "tool.cgi": ("#!/bin/sh\nf() { :; }", "2: function f"),
        "a.h": ("int f(void);", "1: function f"),
        "b.h": ("namespace n { class C { void m(); }; }", "1: module n\n1:   class C\n1:     method m"),
        "bom.py": ("\ufeffclass A: ...", "1: class A"),
        "crlf.py": ("class A:\r\n    def m(self): ...\r\n", "1: class A\n2:   method m"),
        "empty.py": ("", "no definitions found in empty.py"),
    }
    failed = []
    for name, (text, outline) in table.items():
        (project / name).write_bytes(text.encode())
        if (answer := await call("code_outline", path=name)) != outline:
            failed.append((name, answer))
    (project / "wide.py").write_bytes("class Ä: ...".encode("utf-16"))
    assert await call("code_outline", path="wide.py") == "1: class Ä"
    assert failed == []


async def test_what_has_no_outline_is_refused(call, project):
    (project / "a.txt").write_text("x")
    (project / "nul.py").write_bytes(b"\0")
    (project / "big.py").write_bytes(b"#" * (5 * 2**20 + 1))
    (project / "broken.py").write_text("((((\n")
    os.mkfifo(project / "pipe.py")
    table = {
        "a.txt": "unsupported_language", "nul.py": "binary_file", "big.py": "too_large", "broken.py": "parse_error",
        "none.py": "not_a_file", "pipe.py": "not_a_file", "../x.py": "path_denied",
    }  # fmt: skip
    assert {path: await call.code("code_outline", path=path) for path in table} == table
    assert await call.code("code_outline", kind="thing") == "bad_kind"
    assert await call.code("code_outline", match="thing") == "invalid_args"


async def test_a_syntax_error_leaves_the_rest(call, project):
    (project / "a.py").write_text("class A:\n    def m(self): ...\n\nx = = 1\n\ndef f(): ...\n")
    assert await call("code_outline", path="a.py") == (
        "1: class A\n2:   method m\n6: function f\n(syntax error near line 4)"
    )


@pytest.fixture
def shop(project):
    files = {
        "cart.py": "class Cart:\n    def add(self): ...\n    def total(self): ...\n\ndef helper(): ...\n",
        "order.py": "from cart import Cart\n\nclass Order:\n    def pay(self):\n        Cart().add()\n        Cart().total()\n",
        "ui/page.js": "import { Cart } from 'x';\nfunction show() { new Cart().add(); new Cart(); }\n",
        "notes.txt": "Cart Cart Cart",
        "node_modules/x.js": "function hidden() {}\n",
        "secret.py": "class Secret: ...\n",
        ".gitignore": "secret.py\n",
    }
    for name, text in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)


async def test_a_folder_is_its_files_by_how_much_others_mention_what_they_define(call, shop):
    assert await call("code_outline") == (
        "cart.py\n1: class Cart\n2:   method add\n3:   method total\n5: function helper\n"
        "order.py\n3: class Order\n4:   method pay\n"
        "ui/page.js\n2: function show"
    )
    assert await call("code_outline", kind="class") == "cart.py\n1: class Cart\norder.py\n3: class Order"
    assert await call("code_outline", path="ui") == "ui/page.js\n2: function show"
    assert "secret.py\n1: class Secret" in await call("code_outline", include_ignored=True)
    assert await call("code_outline", path="ui", kind="module") == "no definitions found in ui"


async def test_a_name_is_found_below_a_folder(call, shop):
    table = [
        ({"query": "add"}, "cart.py:2: method add"),
        ({"query": "CART"}, "cart.py:1: class Cart"),
        (
            {"query": "a"},
            "cart.py:2: method add\ncart.py:1: class Cart\ncart.py:3: method total\norder.py:4: method pay",
        ),
        ({"query": "a", "kind": "class"}, "cart.py:1: class Cart"),
        ({"query": "Cart#a"}, "cart.py:2: method add"),
        ({"query": "cart.total"}, "cart.py:3: method total"),
        ({"query": "ad", "match": "prefix"}, "cart.py:2: method add"),
        ({"query": "ad", "match": "exact"}, "no definitions found in ."),
        ({"query": "crt", "match": "fuzzy"}, "cart.py:1: class Cart"),
        ({"query": "zzz"}, "no definitions found in ."),
        ({"query": "show", "path": "ui"}, "ui/page.js:2: function show"),
        (
            {"query": "Cart", "references": True, "match": "exact"},
            (
                "cart.py:1: class Cart (to line 3)\n--- lines that name Cart ---\ncart.py:1: class Cart:\n"
                "order.py:1: from cart import Cart\norder.py:5: Cart().add()\norder.py:6: Cart().total()\n"
                "ui/page.js:1: import { Cart } from 'x';\nui/page.js:2: function show() { new Cart().add(); new Cart(); }"
            ),
        ),
    ]
    failed = []
    for arguments, answer in table:
        if (found := await call("code_outline", **arguments)) != answer:
            failed.append((arguments, found))
    assert failed == []


async def test_names_are_shown_on_one_line_and_without_control_characters(call, project):
    (project / "a\n\x1b.py").write_text("class A: ...\n")
    (project / "größe.rb").write_text("def größe; end\ndef \u202e; end\n")
    folder = project / os.fsdecode(b"\xff")
    folder.mkdir()
    (folder / "b.py").write_text("class B: ...\n")
    assert sorted((await call("code_outline")).split("\n")) == [
        "1: class A", "1: class B", "1: method größe", "2: method <U+202E>", "a<U+000A><U+001B>.py", "größe.rb", "\ufffd/b.py",
    ]  # fmt: skip
    assert await call("code_outline", query="GRÖSSE") == "größe.rb:1: method größe"


async def test_a_change_of_a_file_is_seen(call, shop, project):
    assert await call("code_outline", query="Order") == "order.py:3: class Order"
    (project / "order.py").write_text("class Renamed: ...\n")
    (project / "cart.py").unlink()
    (project / "more.py").write_text("class Ordered: ...\n")
    assert await call("code_outline", query="Order") == "more.py:1: class Ordered"
    assert "cart.py" not in await call("code_outline")


async def test_rows_and_sections_are_bounded_and_say_so(call, project):
    for number in range(30):
        (project / f"m{number:02}.py").write_text("".join(f"def name_{number}_{n}(): ...\n" for n in range(15)))
    call.tokens = 6000
    rows = (await call("code_outline", query="name")).split("\n")
    assert (len(rows), rows[-1]) == (201, "... (first 200 of 450 shown)")
    call.tokens = 500
    answer = await call("code_outline", path="m00.py", query="name_0_14")
    assert answer == "15: function name_0_14"


async def test_the_map_has_as_many_whole_files_as_fit(call, project):
    for number in range(30):
        (project / f"m{number:02}.py").write_text("".join(f"def name_{number}_{n}(): ...\n" for n in range(15)))
    call.tokens = 500
    lines = (await call("code_outline")).split("\n")
    shown = sum(line.endswith(".py") for line in lines)
    assert lines[-1] == f"... ({30 - shown} more files; path narrows, query finds a name)"
    assert lines[-2] == "... (3 more)"
    assert shown > 2


@pytest.mark.slow
async def test_a_file_that_takes_too_much_leaves_the_others(call, project):
    (project / "bomb.py").write_text("(" * 400_000)
    (project / "ok.py").write_text("def fine(): ...\n")
    assert "ok.py\n1: function fine" in await call("code_outline")


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder", [Path(os.__file__).parent, *Path("/usr/lib/ruby").glob("[0-9]*")], ids=lambda folder: folder.parent.name
)
async def test_a_standard_library_has_an_outline(call, project, folder):
    call.roots = [project, folder]
    call.tokens = 4000
    answer = await call("code_outline", path=str(folder), include_ignored=True)
    assert "too much to parse" not in answer
    assert "left out" not in answer
    assert answer.count("\n") > 50
    broken = []
    for file in sorted(folder.rglob("*.rb"))[:400]:
        outline = await call("parse_ruby", path=str(file))
        if isinstance(outline, dict) and outline["code"] not in ("parse_error", "path_denied"):
            broken.append((file, outline))
    assert broken == []


async def test_the_map_begins_with_the_product_and_with_names_that_are_no_plain_words(call, project):
    (project / "tests").mkdir()
    (project / "tests" / "test_a.py").write_text("def make_shop():\n    pass\n")
    (project / "shop.py").write_text("def open_shop():\n    pass\n")
    (project / "words.py").write_text("def before():\n    pass\n")
    for number in range(4):
        (project / f"use{number}.py").write_text("make_shop()\nopen_shop()\nbefore = before + 1\n")
    text = await call("code_outline", path=".")
    order = [text.index(name) for name in ("shop.py\n", "words.py\n", "tests/test_a.py\n")]
    assert order == sorted(order)
