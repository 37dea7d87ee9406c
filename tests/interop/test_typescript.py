"""The TypeScript SDK's client, which most hosts are built on, over each transport and in each protocol era."""

import json
import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}


@pytest.fixture(scope="module")
def drive(clients, tmp_path_factory):
    """Run typescript_client.mjs where it finds its packages."""
    folder = tmp_path_factory.mktemp("typescript")
    shutil.copy(HERE / "typescript_client.mjs", folder)
    (folder / "node_modules").symlink_to(clients.modules)

    def run(entry, mode: str, *calls, answer: bool | None = None):
        wanted = {"entry": entry, "mode": mode, "calls": calls}
        if answer is not None:
            wanted["answer"] = answer
        done = clients.run("node", "typescript_client.mjs", json.dumps(wanted), cwd=folder)
        assert done.code == 0, done.err
        return done.json()

    return run


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
def test_lists_calls_and_is_refused(drive, endpoints, transport, mode):
    said = drive(
        endpoints.entry(transport),
        mode,
        ["read_file", {"path": "a.txt"}],
        ["read_file", {"path": "../secret.txt"}],
        ["no_such_tool", {}],
    )
    assert said["protocol"] == ERAS[mode]
    assert "read_file" in said["tools"]
    read, refused, unknown = said["results"]
    assert read["content"] == [{"type": "text", "text": "one\ntwo\nthree"}]
    assert refused["isError"] is True
    assert refused["structuredContent"]["code"] == "path_denied"
    assert unknown["error"]["code"] == -32602


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("answer", "code"), [(True, None), (False, "approval_denied"), (None, "approval_denied")])
def test_a_call_that_needs_approval_runs_only_when_the_person_agrees(drive, endpoints, mode, answer, code):
    entry = endpoints.entry("stdio")
    entry["args"] = [*entry["args"], "--set", 'approvals={"calculator": "always"}']
    said = drive(entry, mode, ["calculator", {"expression": "6*7"}], answer=answer)
    [result] = said["results"]
    assert (result.get("structuredContent") or {}).get("code") == code
    assert result.get("isError", False) is (code is not None)
    assert len(said["questions"]) == (0 if answer is None else 1)
    assert all("calculator" in question and "6*7" in question for question in said["questions"])
