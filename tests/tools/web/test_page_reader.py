"""Pages that have not changed are not transferred again; robots.txt is obeyed where the operator says so."""

import pytest

from toolbox_mcp.tools.web._page_reader import PageReader


async def test_a_page_that_has_not_changed_is_not_transferred_again(call, site, here):
    site.page("/a", "first", "text/plain", etag='"1"', last_modified="Mon, 02 Nov 2026 10:00:00 GMT")
    first = await call("web_fetch", url=f"{here}/a")
    site.page("/a", "", "text/plain", status="304 Not Modified")
    assert await call("web_fetch", url=f"{here}/a") == first
    asked = site.requests[1].lower()
    assert 'if-none-match: "1"\r\n' in asked and "if-modified-since: mon, 02 nov 2026" in asked
    site.page("/a", "second", "text/plain")
    assert (await call("web_fetch", url=f"{here}/a")).endswith("second")
    site.page("/a", "third", "text/plain")
    await call("web_fetch", url=f"{here}/a")
    assert "if-none-match" not in site.requests[3].lower()


ROBOTS = "User-agent: toolbox-mcp\nDisallow: /mine\n\nUser-agent: *\nDisallow: /\n"


async def test_robots_txt_is_obeyed_where_the_operator_says_so(call, site, here):
    site.page("/robots.txt", ROBOTS, "text/plain")
    site.page("/free", "free", "text/plain")
    site.page("/mine/x", "mine", "text/plain")
    assert (await call("web_fetch", url=f"{here}/mine/x")).endswith("mine")
    assert "/robots.txt" not in "".join(site.requests)
    call.reader.robots = True
    refused = await call("web_fetch", url=f"{here}/mine/x")
    assert (refused["code"], refused["error"]) == ("url_blocked", "robots.txt of 127.0.0.1 does not allow /mine/x")
    assert (await call("web_fetch", url=f"{here}/free")).endswith("free")
    assert sum("GET /robots.txt" in request for request in site.requests) == 1


@pytest.mark.parametrize(("status", "read"), [("404 Not Found", True), ("403 Forbidden", True), ("500 Oops", False)])
async def test_a_site_without_robots_txt_allows_all_and_one_that_fails_nothing(call, site, here, status, read):
    site.page("/robots.txt", "", "text/plain", status=status)
    site.page("/a", "text", "text/plain")
    call.reader.robots = True
    answer = await call("web_fetch", url=f"{here}/a")
    assert answer.endswith("text") if read else answer["code"] == "url_blocked"


@pytest.fixture(autouse=True)
def reader(call, here):
    call.reader = PageReader(call.http)
