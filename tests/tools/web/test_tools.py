import hashlib
import json

import pytest

from toolbox_mcp.safety.web.policy import WebPolicy
from toolbox_mcp.server.call.exposure import Gate
from toolbox_mcp.tools.settings import ToolSettings
from toolbox_mcp.tools.web import _readable
from toolbox_mcp.tools.web._http import Http
from toolbox_mcp.tools.web._search import Brave, SearXng, Tavily

ARTICLE = """<!doctype html><html><head><title>On tea &amp; time</title><script>evil()</script></head><body>
<nav><a href="/">Home</a> <a href="/about">About us</a></nav>
<article><h1>On tea</h1><p>Tea is a drink made by pouring hot water over leaves, and it has been drunk for several thousand years in
many places of the world, <a href="/history">as its history tells</a>.</p><p>It takes three minutes to draw, which a person can spend
looking out of the window or reading a page such as this one, and nothing is lost by either.</p>
<pre><code>water = boil()
cup = pour(water)</code></pre>
<table><tr><th>kind</th><th>minutes</th></tr><tr><td>green</td><td>2</td></tr><tr><td>black</td><td>4</td></tr></table>
<ul><li>a pot</li><li>a cup</li></ul></article><footer>Copyright somebody</footer></body></html>"""
FEED = """<?xml version="1.0"?><rss version="2.0"><channel><title>News</title><item><title>First</title><link>https://e.example/1</link>
<pubDate>Mon, 02 Nov 2026</pubDate><description>&lt;p&gt;About it&lt;/p&gt;</description></item></channel></rss>"""


@pytest.fixture
def here(call, site):
    """Let the tools reach the site, and return its address."""
    call.http = Http(WebPolicy(private_allow=(f"127.0.0.1:{site.port}",)), timeout=2.0)
    return f"http://127.0.0.1:{site.port}"


async def test_a_page_is_markdown_of_its_main_content(call, site, here):
    site.page("/", ARTICLE)
    answer = await call("web_fetch", url=f"{here}/")
    head, mark, empty, *text = answer.split("\n")
    assert (head, mark, empty) == (f"GET {here}/ -> 200 (text/html)", "[untrusted content from 127.0.0.1]", "")
    body = "\n".join(text)
    for kept in ("On tea", "pouring hot water", f"[as its history tells]({here}/history)", "water = boil()\ncup = pour(water)", "| green | 2 |", "- a pot"):  # fmt: skip
        assert kept in body, kept
    for left in ("evil", "About us", "Copyright"):
        assert left not in body, left


async def test_a_long_page_is_read_on_by_start(call, site, here):
    call.tokens = 400
    words = " ".join(f"word{number}" for number in range(600))
    site.page("/", words, "text/plain")
    seen, start = "", 0
    for _ in range(20):
        answer = await call("web_fetch", url=f"{here}/", start=start)
        text = answer.partition("\n\n")[2]
        _, _, marker = text.partition("start=")
        if not marker:
            seen += text
            break
        start = int(marker.split("]")[0].split(";")[0])
        seen = words[:start]
    assert seen.endswith("word599")
    assert "nothing behind" in await call("web_fetch", url=f"{here}/", start=10**6)


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ('{"b": [1, 2], "a": "\u00e9"}', "application/json", '{\n  "b": [\n    1,\n    2\n  ],\n  "a": "\u00e9"\n}'),
        ("not json", "application/json", "not json"),
        (FEED, "application/rss+xml", "# News\n- First (Mon, 02 Nov 2026)\n  https://e.example/1\n  About it"),
        ("<a>plain</a>", "application/xml", "<a>plain</a>"),
        ("a\x1b[31mb\u202e", "text/plain", "ab"),
        (b"\x89PNG", "image/png", "(binary content, 4 bytes)"),
        ("<html><head><title>App</title></head><body><div id=root></div></body></html>", "text/html", "# App\n\n(the page has no text without its scripts)"),
        ("", "text/plain", "(empty)"),
    ],
)  # fmt: skip
async def test_other_kinds_are_shown_as_they_help(call, site, here, body, kind, said):
    site.page("/", body, kind)
    assert (await call("web_fetch", url=f"{here}/")).partition("\n\n")[2] == said


async def test_statuses_of_failure_are_errors_of_web_fetch_and_results_of_http_request(call, site, here):
    site.page("/", "gone", "text/plain", status="410 Gone")
    assert await call("web_fetch", url=f"{here}/") == {"error": f"{here}/ answered 410 Gone", "code": "http_error"}
    answer = await call("http_request", url=f"{here}/")
    assert answer.splitlines() == [
        f"GET {here}/ -> 410 Gone", "content-type: text/plain", "content-length: 4", "[untrusted content from 127.0.0.1]", "", "gone",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 1_000_000,
        "<!--" + "x" * 1_500_000,
        "<script>" + "a" * 1_900_000,
        "<table>" + "<tr><td>" * 300_000,
        "<p" + " a=b" * 400_000 + ">",
        "&#" * 900_000,
    ],
    ids=["divs", "comment", "script", "table", "attributes", "entities"],
)
async def test_a_page_made_to_hang_is_read_or_given_up(call, site, here, page):
    site.page("/", page)
    answer = await call("web_fetch", url=f"{here}/")
    assert isinstance(answer, str) or answer["code"] == "fetch_failed"
    assert await call("calculator", expression="1+1")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"method": "TRACE"}, "bad_method"),
        ({"method": "CONNECT"}, "bad_method"),
        ({"method": "POST"}, "exec_disabled"),
        ({"headers": {"Host": "x"}}, "invalid_args"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "invalid_args"),
        ({"headers": {"Proxy-Authorization": "x"}}, "invalid_args"),
        ({"headers": {"A": "b\r\nC: d"}}, "invalid_args"),
        ({"headers": {"A b": "c"}}, "invalid_args"),
        ({"headers": {"A": "b\0"}}, "invalid_args"),
    ],
)
async def test_requests_are_checked(call, site, here, given, code):
    assert await call.code("http_request", url=f"{here}/", **given) == code
    assert site.connections == 0


async def test_writing_methods_go_out_where_the_operator_enabled_them(call, site, here):
    call.settings = ToolSettings(http_writes=True)
    site.page("/", "made", "text/plain", status="201 Created")
    answer = await call("http_request", url=f"{here}/", method="post", body='{"a": 1}', headers={"X-A": 1})
    assert answer.startswith(f"POST {here}/ -> 201 Created") and answer.endswith("made")
    assert site.requests[0].startswith("POST / HTTP/1.1") and site.requests[0].endswith('{"a": 1}')
    assert await call.code("http_request", url=f"{here}/", method="POST", follow_redirects=True) == "invalid_args"


async def test_a_download_is_placed_whole_named_by_its_hash_and_undoable(call, site, here, project):
    data = bytes(range(256)) * 100
    site.page("/a.bin", data, "application/octet-stream")
    answer = await call("download_file", url=f"{here}/a.bin", path="sub/a.bin")
    digest = hashlib.sha256(data).hexdigest()
    assert f"Downloaded {len(data)} bytes from {here}/a.bin to sub/a.bin (sha256 {digest})" in answer
    assert (project / "sub/a.bin").read_bytes() == data
    await call("undo")
    assert not (project / "sub/a.bin").exists()


async def test_a_download_that_fails_leaves_nothing(call, site, here, project):
    (project / "there.txt").write_text("kept")
    (project / "folder").mkdir()
    site.page("/big", b"x" * 3_000_000, "text/plain")
    table = [
        ("/none", "a", {}, "http_error"),
        ("/big", "a", {}, "too_large"),
        ("/big", "folder", {}, "is_a_directory"),
        ("/big", "there.txt", {"overwrite": False}, "exists"),
        ("/big", "../a", {}, "path_denied"),
        ("/big", ".git/config", {}, "protected_path"),
    ]
    wrong = [
        (path, code) for target, path, more, code in table
        if await call.code("download_file", url=here + target, path=path, **more) != code
    ]  # fmt: skip
    assert wrong == []
    assert sorted(each.name for each in project.iterdir()) == ["folder", "there.txt"]
    assert (project / "there.txt").read_text() == "kept"


async def test_downloads_are_for_the_operator_to_enable(call, here):
    call.gate = Gate()
    assert await call.code("download_file", url=f"{here}/", path="a") == "exec_disabled"


RESULTS = [
    {"title": "T\u202e1", "url": "https://e.example/1", "content": "about " * 100, "description": "about " * 100}
]
ENGINES = {
    "tavily": (lambda http, base: Tavily(http, "key", base), "/search", {"results": RESULTS}),
    "brave": (lambda http, base: Brave(http, "key", base), "/res/v1/web/search?q=a%20b&count=5", {"web": {"results": RESULTS}}),
    "searxng": (lambda http, base: SearXng(http, base), "/search?q=a%20b&format=json", {"results": RESULTS}),
}  # fmt: skip


@pytest.mark.parametrize("name", ENGINES)
async def test_every_engine_gives_the_same_form(call, site, here, name):
    make, target, answer = ENGINES[name]
    site.page(target, json.dumps(answer), "application/json")
    call.engine = make(Http(), here)
    lines = (await call("web_search", query="a b")).splitlines()
    assert lines[1:4] == ["[untrusted content from the web]", "1. T1", "   https://e.example/1"]
    assert lines[4].startswith("   about about") and len(lines[4]) <= 303
    asked = site.requests[0]
    assert {"tavily": '"api_key": "key"', "brave": "x-subscription-token: key", "searxng": "GET /search"}[name] in asked


@pytest.mark.parametrize("name", ENGINES)
async def test_an_engine_that_fails_is_search_failed(call, site, here, name):
    make, target, _ = ENGINES[name]
    call.engine = make(Http(timeout=0.5), here)
    wrong = []
    for body, status in (("no", "500 Error"), ("no", "200 OK"), ("[1]", "200 OK"), ("", "302 Found")):
        site.page(target, body, "application/json", status=status)
        if await call.code("web_search", query="a b") != "search_failed":
            wrong.append((body, status))
    site.page(target, "{}", "application/json")
    assert wrong == [] and await call("web_search", query="a b") == "no results for a b"


async def test_a_missing_key_says_which_variable_to_set(call):
    answer = await call("web_search", query="a")
    assert (answer["code"], answer["hint"]) == ("missing_api_key", "the operator can set TAVILY_API_KEY")
    call.engine = None
    assert await call.code("web_search", query="  ") == "invalid_args"


async def test_an_operators_own_engine_may_answer_or_raise(call):
    class Own:
        async def search(self, query, max_results):
            if query == "bad":
                raise RuntimeError("secret")
            return [{"title": "a", "url": "u", "snippet": "s"}]

    call.engine = Own()
    assert "1. a\n   u\n   s" in await call("web_search", query="x")
    answer = await call("web_search", query="bad")
    assert answer["code"] == "search_failed" and "secret" not in json.dumps(answer)


GEM = {
    "name": "rack", "version": "3.1.0", "info": "a web\nserver interface", "licenses": ["MIT"], "authors": "A, B", "downloads": 7,
    "homepage_uri": "https://h.example", "source_code_uri": None,
    "dependencies": {"runtime": [{"name": "x", "requirements": ">= 1"}], "development": [{"name": "y", "requirements": ""}]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"action": "version", "name": "rack"}, "rack 3.1.0"),
        ({"action": "dependencies", "name": "rack"}, "rack 3.1.0 needs:\n- x (>= 1)"),
        ({"action": "info", "name": "rack"}, "rack 3.1.0\nsummary: a web server interface\nlicense: MIT\nauthors: A, B\nhomepage: https://h.example\ndownloads: 7"),
        ({"action": "search", "query": "web server"}, "rack (3.1.0) - a web server interface"),
        ({"action": "search", "query": "none"}, "no gems match none"),
        ({"action": "info", "name": "absent"}, "gem_not_found"),
        ({"action": "info", "name": "../x"}, "bad_gem"),
        ({"action": "info", "name": ".."}, "bad_gem"),
        ({"action": "info"}, "invalid_args"),
        ({"action": "search"}, "invalid_args"),
        ({"action": "yank", "name": "rack"}, "bad_action"),
    ],
)  # fmt: skip
async def test_gem(call, site, here, given, said):
    call.settings = ToolSettings(gem_url=here)
    site.page("/api/v1/gems/rack.json", json.dumps(GEM), "application/json")
    site.page("/api/v1/search.json?query=web%20server", json.dumps([GEM]), "application/json")
    site.page("/api/v1/search.json?query=none", "[]", "application/json")
    result = await call.result("gem", given)
    text = result.content[0].text
    assert (json.loads(text)["code"] if result.is_error else text) == said


def test_charsets_are_those_of_a_safe_list():
    table = {
        ("text/plain; charset=utf-8", "é".encode()): "é",
        ("text/plain; charset=ISO-8859-1", "é".encode("latin-1")): "é",
        ("text/plain; charset=shift_jis", "日".encode("shift_jis")): "日",
        ("text/plain; charset=rot13", b"abc"): "abc",
        ("text/plain; charset=unicode_escape", b"\\u0041"): "\\u0041",
        ("text/plain; charset=base64", b"YWJj"): "YWJj",
        ("text/html", b"<meta charset=latin-1>\xe9"): "<meta charset=latin-1>é",
        ("text/plain", "\ufeffx".encode("utf-16")): "\ufeffx",
    }
    assert {key: _readable.decoded(key[1], key[0]) for key in table} == table
