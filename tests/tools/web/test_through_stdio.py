"""A real client, the command itself: a dev server is started, read, downloaded from; under another preset it is refused."""

import hashlib
import re
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

SCRIPT = Path(sys.executable).with_name("toolbox-mcp")
SERVER = """import http.server
s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
print('listening on', s.server_port, flush=True)
s.serve_forever()
"""


def started(home: Path, root: Path, *args: str) -> StdioServerParameters:
    home.mkdir(exist_ok=True)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return StdioServerParameters(
        command=str(SCRIPT), args=["--root", str(root), *args], env={"HOME": str(home), "PATH": path}
    )


def text(result) -> str:
    return result.content[0].text


@pytest.mark.slow
async def test_a_dev_server_is_read_on_and_downloaded_from_under_the_operators_grant(project, tmp_path):
    lines = [f"line {number} of a long text" for number in range(5000)]
    (project / "long.txt").write_text("\n".join(lines))
    (project / "data.bin").write_bytes(bytes(range(256)) * 64)
    (project / "server.py").write_text(SERVER)
    exec_tools = "exec_tools=process_start,process_kill,download_file,undo"
    granted = started(tmp_path / "a", project, "--preset", "coder", "--set", exec_tools)
    refused = started(tmp_path / "b", project)
    with anyio.fail_after(120):
        async with Client(granted) as client, Client(refused) as other:
            begun = text(
                await client.call_tool(
                    "process_start",
                    {"command": "python", "args": ["server.py"], "wait_for": r"listening on \d+", "wait": 30},
                )
            )
            found = re.search(r"listening on (\d+)", begun)
            assert found, begun
            base = f"http://127.0.0.1:{found[1]}"

            head = text(await client.call_tool("http_request", {"url": f"{base}/data.bin", "method": "HEAD"}))
            assert head.startswith(f"HEAD {base}/data.bin -> 200 OK")

            seen, start = "", 0
            while True:
                page = text(await client.call_tool("web_fetch", {"url": f"{base}/long.txt", "start": start}))
                onward = re.findall(r"start=(\d+)", page.splitlines()[-1])
                seen += page.partition("\n\n")[2]
                if not onward:
                    break
                start = int(onward[-1])
            assert [line for line in lines if line not in seen] == []

            said = text(await client.call_tool("download_file", {"url": f"{base}/data.bin", "path": "copy.bin"}))
            copy = project / "copy.bin"
            assert f"sha256 {hashlib.sha256(copy.read_bytes()).hexdigest()}" in said
            assert copy.read_bytes() == (project / "data.bin").read_bytes()
            await client.call_tool("undo", {})
            assert not copy.exists()

            for tool in ("http_request", "web_fetch"):
                result = await other.call_tool(tool, {"url": f"{base}/data.bin"})
                assert result.is_error and '"url_blocked"' in text(result), tool
