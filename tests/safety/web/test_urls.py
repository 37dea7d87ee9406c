"""Which URLs and addresses are refused: the tables of the research, each form with what it would reach."""

from ipaddress import ip_address

import pytest

from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.web.addresses import refusal
from toolbox_mcp.safety.web.policy import WebPolicy
from toolbox_mcp.safety.web.urls import judge

REFUSED = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.254",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.170",
    "192.0.2.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.175.48.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2620:4f:8000::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "4000::1",
    "e000::1",
    "::8.8.8.8",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "172.15.0.1",
    "172.32.0.1",
    "192.0.1.1",
    "223.255.255.254",
    "2606:4700::1111",
    "2a00:1450::1",
    "::ffff:8.8.8.8",
]


def test_every_address_that_is_not_public_is_refused():
    assert [each for each in REFUSED if refusal(ip_address(each)) is None] == []
    assert [each for each in PUBLIC if refusal(ip_address(each)) is not None] == []


def test_nat64_is_judged_by_the_address_inside_where_the_operator_says_so():
    inside, outside = ip_address("64:ff9b::7f00:1"), ip_address("64:ff9b::808:808")
    assert refusal(outside) and refusal(inside, nat64=True)
    assert refusal(outside, nat64=True) is None


BLOCKED = [
    "", "example.com", "//example.com", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "javascript:alert(1)", "data:text/html,x",
    "http:example.com", "http:/example.com", "http://", "http:///path", "https://@example.com/", "http://user@example.com/", "http://a:b@example.com/",
    "http://example.com\\@127.0.0.1/", "http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/",
    "http://0x7f.1/", "http://127.0.0.1./", "http://127.0.0.01/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[fe80::1%25eth0]/",
    "http://[::1", "http://::1/", "http://[1.2.3.4]/", "http://[v1.x]/", "http://\uff11\uff12\uff17.0.0.1/", "http://\u2460\u2461\u2466.0.0.1/", "http://ex\u00admple.com/",
    "http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://a.localhost/", "http://printer/", "http://a.local/", "http://a.internal/", "http://metadata.google.internal/",
    "http://x.svc.cluster.local/", "http://169.254.169.254/latest/", "http://example.com:22/", "http://example.com:0/", "http://example.com:65536/",
    "http://example.com:8o/", "http://example.com:80:80/", "http://example.com:+80/", "http://example.com:\u0668\u0660/", "http://exa mple.com/", "http://example.com/\n", "http://example.com/\x00",
    "http://example.com/\u2028", "http://example.com/\ufeff", "http://example.com/\u202e", " http://example.com/", "http://-a.com/", "http://a-.com/", "http://a..com/",
    "http://" + "a" * 64 + ".com/", "http://" + "a." * 130 + "com/", "http://example.com/" + "x" * 4096, "http://ex%61mple.com/", "http://example.com%2f@127.0.0.1/",
    "http://example.com/\ud800", "http://1.2.3/", "http://1.2.3.4.5/", "http://256.1.1.1/", "http://foo.123/", "http://foo.0x7f/",
]  # fmt: skip
ALLOWED = {
    "http://example.com": "http://example.com/",
    "HTTPS://Example.COM/a?b#c": "https://example.com/a?b",
    "https://example.com:443/": "https://example.com/",
    "http://example.com:8080/x": "http://example.com:8080/x",
    "http://example.com./": "http://example.com/",
    "http://b\u00fccher.example/\u00fc?q=\u00fc": "http://xn--bcher-kva.example/%C3%BC?q=%C3%BC",
    "http://1.1.1.1/": "http://1.1.1.1/",
    "http://[2606:4700::1111]/": "http://[2606:4700::1111]/",
    "http://example.com?x": "http://example.com/?x",
    "http://my_host.example/%2e%2e/a%20b": "http://my_host.example/%2e%2e/a%20b",
}


def test_malformed_and_internal_urls_are_refused():
    passed = []
    for raw in BLOCKED:
        try:
            passed.append((raw, str(judge(raw, WebPolicy()))))
        except ToolError as refused:
            assert refused.code == "url_blocked", raw
    assert passed == []


def test_public_urls_pass_in_their_plain_form():
    assert {raw: str(judge(raw, WebPolicy())) for raw in ALLOWED} == ALLOWED


@pytest.mark.parametrize(
    ("policy", "raw", "passes"),
    [
        (WebPolicy(denylist=("example.com",)), "http://a.example.com/", False),
        (WebPolicy(denylist=("example.com",)), "http://notexample.com/", True),
        (WebPolicy(allowlist=("example.com",)), "http://a.example.com/", True),
        (WebPolicy(allowlist=("example.com",)), "http://example.org/", False),
        (WebPolicy(allowlist=("example.com",), denylist=("b.example.com",)), "http://b.example.com/", False),
        (WebPolicy(allowlist=("localhost",)), "http://localhost/", False),
        (WebPolicy(ports=(81,)), "http://example.com/", False),
        (WebPolicy(ports=(81,)), "http://example.com:81/", True),
        (WebPolicy(private_allow=("localhost:3000",)), "http://localhost:3000/", True),
        (WebPolicy(private_allow=("localhost:3000",)), "http://localhost:3001/", False),
        (WebPolicy(private_allow=("localhost:*",)), "http://localhost:3001/", True),
        (WebPolicy(private_allow=("[::1]:*",)), "http://[::1]:9/", True),
        (WebPolicy(private_allow=("127.0.0.1:*",)), "http://127.1:9/", False),
        (WebPolicy(private_allow=("localhost:*",), denylist=("localhost",)), "http://localhost/", False),
        (WebPolicy(denylist=("93.184.216.34",)), "http://[::ffff:93.184.216.34]/", False),
        (WebPolicy(denylist=("93.184.216.34",), nat64=True), "http://[64:ff9b::93.184.216.34]/", False),
        (WebPolicy(denylist=("[2606:4700:0:0::1111]",)), "http://[2606:4700::1111]/", False),
        (WebPolicy(denylist=("::ffff:93.184.216.34",)), "http://93.184.216.34/", False),
        (WebPolicy(denylist=("b\u00fccher.example",)), "http://a.xn--bcher-kva.example/", False),
        (WebPolicy(allowlist=("b\u00fccher.example",)), "http://xn--bcher-kva.example/", True),
        (WebPolicy(denylist=("93.184.216.34",)), "http://93.184.216.35/", True),
    ],
)
def test_the_operators_lists_decide(policy, raw, passes):
    try:
        judge(raw, policy)
    except ToolError as refused:
        assert refused.code == "url_blocked" and not passes
    else:
        assert passes


@pytest.mark.parametrize(
    ("start", "location", "there"),
    [
        ("http://example.com/a/b", "c", "http://example.com/a/c"),
        ("http://example.com/a", "//example.org/x", "http://example.org/x"),
        ("https://example.com/", "https://example.org/", "https://example.org/"),
        ("https://example.com/", "http://example.com/", None),
        ("http://example.com/", "http://127.0.0.1/", None),
        ("http://example.com/", "javascript:alert(1)", None),
        ("http://example.com/", "file:///etc/passwd", None),
        ("http://example.com/", "http://[::1]/", None),
        ("http://example.com/", "http://[", None),
        ("http://example.com/", "/a\r\nb", None),
        ("http://example.com/", "/" + "x" * 5000, None),
    ],
)
def test_a_redirect_is_judged_like_any_url(start, location, there):
    url = judge(start, WebPolicy())
    try:
        assert str(url.joined(location)) == there
    except ToolError as refused:
        assert refused.code == "url_blocked" and there is None


def test_only_what_is_granted_itself_redirects_to_what_is_granted():
    policy = WebPolicy(private_allow=("localhost:*", "127.0.0.1:3000"))
    with pytest.raises(ToolError) as refused:
        judge("http://example.com/", policy).joined("http://localhost:3000/")
    assert refused.value.code == "url_blocked"
    assert str(judge("http://localhost:3000/", policy).joined("http://127.0.0.1:3000/")) == "http://127.0.0.1:3000/"
    assert str(judge("http://localhost:3000/", policy).joined("http://example.com/")) == "http://example.com/"


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ("localhost:3000", "http://localhost:3000"),
        ("127.0.0.1:80/a?b=1", "http://127.0.0.1:80/a?b=1"),
        ("example.com/docs", "https://example.com/docs"),
        ("file:///etc/passwd", None),
        ("javascript:alert(1)", None),
        ("a b.com", None),
    ],
)
def test_an_address_without_its_scheme_is_told_with_it(raw, meant):
    with pytest.raises(ToolError) as refused:
        judge(raw, WebPolicy())
    hint = f"did you mean {meant}?" if meant else "only public http and https addresses are reached"
    assert (refused.value.code, refused.value.hint) == ("url_blocked", hint)
