from pathlib import Path

import pytest

from tests.tables import each_row
from toolbox_mcp.server.transports.http.bearer import digests
from toolbox_mcp.server.transports.http.origin import parse_authority, parse_origin
from toolbox_mcp.server.transports.http.settings import HttpSettings, refusal

TOKENS = digests({"a": "x" * 32})
TLS = {"tls_cert": Path("cert.pem"), "tls_key": Path("key.pem")}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, None),
        ({"host": "::1"}, None),
        ({"host": "localhost"}, None),
        ({"host": "0.0.0.0", "tokens": TOKENS, **TLS}, None),
        ({"host": "0.0.0.0", "tokens": TOKENS, "allow_plain_http": True}, None),
        ({"host": "0.0.0.0"}, "bearer token"),
        ({"host": "0.0.0.0", **TLS}, "bearer token"),
        ({"host": "0.0.0.0", "allow_plain_http": True}, "bearer token"),
        ({"host": "0.0.0.0", "tokens": TOKENS}, "TLS is needed"),
        ({"host": "::", "tokens": TOKENS}, "TLS is needed"),
        ({"host": "", "tokens": TOKENS}, "TLS is needed"),
        ({"host": "box.example", "tokens": TOKENS}, "TLS is needed"),
        ({"tls_cert": Path("cert.pem")}, "tls_key"),
        ({"tls_key": Path("key.pem")}, "tls_cert"),
        ({"allowed_hosts": ("http://localhost",)}, "allowed_hosts"),
        ({"allowed_hosts": ("127.1",)}, "allowed_hosts"),
        ({"allowed_origins": ("localhost",)}, "allowed_origins"),
        ({"allowed_origins": ("https://a.example/path",)}, "allowed_origins"),
    ],
)
def test_a_start_is_refused_in_one_line_or_not_at_all(given, why):
    line = refusal(HttpSettings(**given))
    if why is None:
        assert line is None
    else:
        assert why in line
        assert "\n" not in line


@each_row("host", ["127.0.0.1", "0.0.0.0", "::"])
def test_loopback_names_with_the_port_are_the_hosts_by_default(host):
    rules = {(rule.host, rule.port) for rule in HttpSettings(host=host, port=99).host_rules()}
    assert rules == {("127.0.0.1", 99), ("localhost", 99), ("[::1]", 99)}


def test_a_named_host_can_be_reached_by_its_name():
    rules = HttpSettings(host="fd00::5", port=99).host_rules()
    assert parse_authority("[fd00::5]:99") in rules


def test_allowed_hosts_replace_the_default():
    assert HttpSettings(allowed_hosts=("box.example",)).host_rules() == (parse_authority("box.example"),)


def test_the_servers_own_origin_is_one_of_its_origins():
    rules = HttpSettings(port=99, allowed_origins=("https://a.example",)).origin_rules()
    assert parse_origin("http://localhost:99") in rules
    assert parse_origin("https://a.example") in rules


def test_tokens_do_not_show_in_a_log():
    assert "tokens" not in repr(HttpSettings(tokens=TOKENS))
