import pytest

from toolbox_mcp.tools.settings import ToolSettings


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
        ({"headers": {"A": "\u20ac"}}, "invalid_args"),
        ({"headers": {"X-HTTP-Method-Override": "DELETE"}}, "exec_disabled"),
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


async def test_headers_are_sent_as_they_are_given(call, site, here):
    site.page("/", "hello", "text/plain")
    await call("http_request", url=f"{here}/", headers={"X-Name": " \u00e9 ", "X-Empty": "", "User-Agent": "mine"})
    lines = site.requests[0].splitlines()
    assert {"x-name: \u00e9", "x-empty: ", "user-agent: mine"} <= {*lines}


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_head_stays_head_behind_a_redirect(call, site, here, status):
    site.redirect("/", "/there", status)
    await call("http_request", url=f"{here}/", method="HEAD", follow_redirects=True)
    assert [each.split()[0] for each in site.requests] == ["HEAD", "HEAD"]
