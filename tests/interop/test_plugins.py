"""The plugin, the extension and the bundle, judged and installed by the programs that they are for."""

import json
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"


@pytest.fixture
def world(clients, tmp_path):
    """Return a home with a folder of work, and the variables that lead a client to both."""
    (tmp_path / "work").mkdir()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/toolbox-mcp"
    real = Path(sys.executable).with_name("toolbox-mcp")
    where = shlex.quote(str(tmp_path / "started-in"))
    program.write_text(f'#!/bin/sh\npwd > {where}\necho "$@" >> {where}\nexec {shlex.quote(str(real))} "$@"\n')
    program.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{clients.node.parent}:/usr/bin:/bin"
    return tmp_path, {"HOME": str(tmp_path), "PATH": path, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def test_claude_code_installs_the_plugin_and_it_serves_the_folder_of_the_session(clients, world):
    home, env = world

    def claude(*args):
        return clients.run("claude", *args, cwd=home / "work", env=env)

    plugin = str(PACKAGING / "claude-code")
    for args in (
        ("plugin", "validate", "--strict", plugin),
        ("plugin", "marketplace", "add", plugin),
        ("plugin", "install", "toolbox@toolbox-mcp"),
    ):
        done = claude(*args)
        assert done.code == 0, done.out + done.err
    listed = claude("mcp", "list")
    assert re.search(r"^plugin:toolbox:toolbox: .* - ✔ Connected$", listed.out, re.MULTILINE), listed
    assert (home / "started-in").read_text().split()[0] == str(home / "work")


def test_gemini_installs_the_extension_and_it_serves_the_folder_of_the_session(clients, world):
    home, env = world
    (home / ".gemini").mkdir()
    quiet = {"general": {"enableAutoUpdate": False}, "privacy": {"usageStatisticsEnabled": False}}
    (home / ".gemini/settings.json").write_text(json.dumps(quiet))
    extension = str(PACKAGING / "gemini")
    for args in (("extensions", "validate", extension), ("extensions", "install", "--consent", extension)):
        done = clients.run("gemini", *args, cwd=home / "work", env=env)
        assert done.code == 0, done.out + done.err
    listed = clients.run("gemini", "mcp", "list", cwd=home / "work", env=env)
    said = listed.out + listed.err
    assert re.search(r"toolbox \(from toolbox\): .* - Connected$", said, re.MULTILINE), said
    assert f"--root {home / 'work'} " in (home / "started-in").read_text()


@pytest.fixture(scope="module")
def bundle(clients, tmp_path_factory):
    """Return the bundle, built by the script."""
    script = [sys.executable, ROOT / "scripts/mcpb.py", tmp_path_factory.mktemp("bundle")]
    built = subprocess.run(script, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stderr[-2000:]
    return Path(built.stdout.strip())


def test_the_tool_for_bundles_unpacks_the_bundle_and_takes_its_manifest(clients, bundle, tmp_path):
    for args in (("unpack", str(bundle), str(tmp_path / "out")), ("validate", str(tmp_path / "out/manifest.json"))):
        done = clients.run("mcpb", *args)
        assert done.code == 0, done.out + done.err
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    del manifest["server"]
    (tmp_path / "out/manifest.json").write_text(json.dumps(manifest))
    assert clients.run("mcpb", "validate", str(tmp_path / "out/manifest.json")).code != 0


def test_the_command_of_the_bundle_starts_a_server_that_answers(bundle, tmp_path):
    zipfile.ZipFile(bundle).extractall(tmp_path / "out")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/a.txt").write_text("hello\n")
    how = json.loads((tmp_path / "out/manifest.json").read_text())["server"]["mcp_config"]
    given = {
        "${__dirname}": str(tmp_path / "out"),
        "${user_config.root}": str(tmp_path / "project"),
        "${user_config.preset}": "reader",
    }
    uv = Path(sys.executable).with_name(how["command"])
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "read_file", "arguments": {"path": "a.txt"}}},
    ]  # fmt: skip
    with subprocess.Popen(
        [uv, *(given.get(word, word) for word in how["args"])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin and server.stdout and server.stderr
        answers = []
        for message in messages:
            server.stdin.write(json.dumps(message) + "\n")
            server.stdin.flush()
            if "id" in message:
                answers.append(json.loads(server.stdout.readline() or "{}"))
        server.stdin.close()
        said = server.stderr.read()
    assert answers[-1]["result"]["content"][0]["text"] == "hello", said
