"""The coding clients call tools over the transports by URL that each of them speaks."""

import pytest

from .coding_clients import asked, connected
from .test_handed_to_model import kept

SPOKEN = [("claude-code", "http"), ("claude-code", "sse"), ("codex", "http"), ("gemini", "http"), ("gemini", "sse")]


def script():
    _ = yield "read_file", {"path": "a.txt"}


@pytest.mark.parametrize(("client", "transport"), SPOKEN)
def test_a_client_calls_by_url(clients, endpoints, project, client, transport, tmp_path):
    connected(clients, client, transport, getattr(endpoints, transport), tmp_path)
    [answer] = asked(clients, client, script(), project, tmp_path)
    assert kept(client, "text", answer).rstrip("\n") == "one\ntwo\nthree"
