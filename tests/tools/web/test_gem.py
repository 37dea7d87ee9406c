import json

import pytest

from toolbox_mcp.safety.web.policy import WebPolicy
from toolbox_mcp.tools.settings import ToolSettings
from toolbox_mcp.tools.web._http import Http

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
        ({"action": "search", "query": "\ud800"}, "invalid_args"),
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


PUBLIC, INSIDE = "93.184.216.34", "127.0.0.1"


async def outcome(call, name):
    result = await call.result("gem", {"action": "version", "name": name})
    text = result.content[0].text
    return json.loads(text)["code"] if result.is_error else text


@pytest.mark.parametrize(
    ("policy", "address"),
    [
        (WebPolicy(denylist=("rubygems.org",)), PUBLIC),
        (WebPolicy(allowlist=("e.example",)), PUBLIC),
        (WebPolicy(), INSIDE),
    ],
    ids=["denied", "not allowed", "leads inside"],
)
async def test_the_default_server_is_judged_like_any_host(call, names, public, policy, address):
    call.http = Http(policy, timeout=1.0, resolve=names)
    names.answers["rubygems.org"] = [[address]]
    assert await outcome(call, "rack") == "url_blocked"
    assert public == []


async def test_an_operators_server_may_be_internal_but_not_denied_and_redirects_nowhere(
    call, names, site, sites, public
):
    inside = await sites()
    call.settings = ToolSettings(gem_url=f"http://gems.corp:{site.port}")
    call.http = Http(WebPolicy(denylist=("127.0.0.2",)), timeout=1.0, resolve=names)
    site.page("/api/v1/gems/rack.json", json.dumps(GEM), "application/json")
    site.redirect("/api/v1/gems/moved.json", f"http://127.0.0.1:{inside.port}/")
    names.answers["gems.corp"] = [["127.0.0.1"], ["127.0.0.1"], ["127.0.0.2"]]
    assert [await outcome(call, name) for name in ("rack", "moved", "rack")] == [
        "rack 3.1.0",
        "http_error",
        "url_blocked",
    ]
    assert inside.connections == 0
