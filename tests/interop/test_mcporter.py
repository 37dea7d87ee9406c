"""mcporter: a client of its own, with its own way of reading answers."""

import json

import pytest


@pytest.fixture(scope="module")
def mcporter(clients, endpoints, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mcporter")
    config = folder / "mcporter.json"
    servers = {name: endpoints.entry(name) for name in ("stdio", "http")}
    for entry in servers.values():
        entry.pop("type", None)
    config.write_text(json.dumps({"mcpServers": servers}))
    return lambda *args: clients.run("mcporter", "--config", str(config), *args, cwd=folder)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_lists_and_reads(mcporter, transport):
    listed = mcporter("list", transport, "--json")
    assert listed.code == 0, listed.err
    assert "read_file" in {tool["name"] for tool in listed.json()["tools"]}
    read = mcporter("call", f"{transport}.read_file", "path=a.txt")
    assert read.code == 0, read.err
    assert read.out.rstrip("\n") == "one\ntwo\nthree"


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_tells_a_refusal_from_an_answer(mcporter, transport):
    refused = mcporter("call", f"{transport}.read_file", "path=../secret.txt")
    assert refused.code == 1
    assert "path_denied" in refused.out + refused.err
