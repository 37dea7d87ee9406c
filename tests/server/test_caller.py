"""What callers share who cannot be told apart."""

from toolbox_mcp.server.transports.caller import ANONYMOUS, Caller


def test_requests_without_a_session_and_without_a_token_share_no_owner():
    one, two = Caller("http", None, None), Caller("http", None, None)
    assert one.owner == one.owner != two.owner
    assert one.owner.startswith(ANONYMOUS)
    # Those who can be told apart keep theirs.
    assert Caller("http", None, "alice").owner == Caller("http", None, "alice").owner == "principal:alice"
    assert Caller("http", "s1", None).owner == "session:s1"
