from tests.tables import each_row
from toolbox_mcp.server.transports.http.origin import Authority, is_loopback, parse_authority, parse_origin


@each_row(
    ("text", "value"),
    [
        ("localhost:8765", Authority("localhost", 8765)),
        ("LocalHost", Authority("localhost", None)),
        ("127.0.0.1:1", Authority("127.0.0.1", 1)),
        ("[::1]:8765", Authority("[::1]", 8765)),
        ("[0:0:0:0:0:0:0:1]", Authority("[::1]", None)),
        ("a-b.example:65535", Authority("a-b.example", 65535)),
    ],
)
def test_a_host_is_read_as_a_value(text, value):
    assert parse_authority(text) == value


@each_row(
    "text",
    [
        "", ":", ":80", "localhost:", "localhost:0", "localhost:65536", "localhost:8765:1", "localhost:9.evil.example",
        "localhost:+1", "localhost:1e3", "localhost:\u0661", "localhost:*", "127.1", "2130706433", "0x7f.0.0.1",
        "0177.0.0.1", "127.0.0.1.", "127.0.0.256", "[::1", "::1", "[::1]x", "[::1%25lo]", "[127.0.0.1]", "[v1.x]",
        "user@localhost", "localhost/", "localhost?x", "localhost#x", "local host", " localhost", "localhost\n",
        "localhost\\x", "localhost,evil.example", "-a", ".localhost", "localh\u00f6st", "a" * 300, "*", "*:80",
    ],
)  # fmt: skip
def test_anything_else_is_no_host(text):
    assert parse_authority(text) is None


@each_row(
    ("rule", "text", "scheme", "admitted"),
    [
        ("localhost:8765", "LOCALHOST:8765", "http", True),
        ("localhost:8765", "localhost:8766", "http", False),
        ("localhost:8765", "localhost", "http", False),
        ("localhost:8765", "localhost.evil.example:8765", "http", False),
        ("127.0.0.1:8765", "127.0.0.1.evil.example:8765", "http", False),
        ("example.com", "example.com", "http", True),
        ("example.com", "example.com:80", "http", True),
        ("example.com", "example.com:443", "http", False),
        ("example.com:443", "example.com", "https", True),
        ("example.com:*", "example.com:9", "http", True),
        ("example.com:*", "example.com", "http", True),
        ("example.com:*", "example.com.evil:9", "http", False),
        ("[::1]:1", "[0::1]:1", "http", True),
    ],
)
def test_a_rule_admits_equal_values_only(rule, text, scheme, admitted):
    assert parse_authority(rule, rule=True).admits(parse_authority(text), scheme) is admitted


@each_row(
    ("rule", "text", "admitted"),
    [
        ("http://localhost:8765", "http://localhost:8765", True),
        ("http://localhost:8765", "https://localhost:8765", False),
        ("http://localhost:8765", "http://localhost:8765.evil.example", False),
        ("http://localhost:*", "http://localhost:9", True),
        ("http://localhost:*", "http://localhost:9.evil.example", False),
        ("https://a.example", "https://a.example:443", True),
        ("vscode-webview://abc", "vscode-webview://abc", True),
        ("vscode-webview://abc", "vscode-webview://abcd", False),
    ],
)
def test_an_origin_is_compared_by_scheme_host_and_port(rule, text, admitted):
    origin = parse_origin(text)
    assert bool(origin and parse_origin(rule, rule=True).admits(origin)) is admitted


@each_row(
    "text",
    ["null", "", "localhost", "http://", "http://localhost/", "http://u@localhost", "//localhost", "http:localhost"],
)
def test_anything_else_is_no_origin(text):
    assert parse_origin(text) is None


@each_row(
    ("host", "loopback"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True), ("localhost", True),
        ("::ffff:127.0.0.1", True), ("0.0.0.0", False), ("::", False), ("", False), ("192.168.1.5", False),
        ("localhost.evil.example", False), ("127.0.0.1.evil.example", False), ("::ffff:10.0.0.1", False), ("127.1", False),
    ],
)  # fmt: skip
def test_loopback_is_told_from_the_rest(host, loopback):
    assert is_loopback(host) is loopback
