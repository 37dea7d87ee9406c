import json

import pytest

from toolbox_mcp.tools.web._http import Http
from toolbox_mcp.tools.web._search import Brave, SearXng, Tavily

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
