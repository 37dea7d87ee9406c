import json

import pytest

from toolbox_mcp.tools.settings import ToolSettings

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
