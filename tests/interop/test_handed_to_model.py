"""What each coding client hands to its model of an answer: what the server sent, once, and nothing else."""

import json
import re
import zlib

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from .coding_clients import CODING_CLIENTS, handed
from .conftest import SERVER

CALLS = {
    "text": ("read_file", {"path": "a.txt"}),
    "exec": ("bash", {"command": "printf", "args": ['out\\n"quoted"\\n']}),
    "exit": ("bash", {"command": "false"}),
    "image": ("read_file", {"path": "a.png"}),
    "error": ("read_file", {"path": "missing.txt"}),
    "long": ("read_file", {"path": "long.txt"}),
    "list": ("read_file", {"path": "list.json"}),
    "object": ("read_file", {"path": "object.json"}),
    "number": ("calculator", {"expression": "6*7"}),
    "record": ("file_info", {"path": "a.txt"}),
}


def script():
    for call in CALLS.values():
        # Not `yield from`, which would send the answers to the values.
        _ = yield call


def png():
    """Return a picture of one grey pixel."""

    def chunk(kind, data):
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    header = chunk(b"IHDR", bytes([0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0]))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0\x80")) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    (folder / "a.txt").write_text("one\n<two> & 'three'\n")
    (folder / "a.png").write_bytes(png())
    (folder / "long.txt").write_text("".join(f"line {number} of the long file\n" for number in range(20_000)))
    (folder / "list.json").write_text("[1, 2, 3]")
    (folder / "object.json").write_text('{"a": 1}')
    return folder


@pytest.fixture
async def sent(root):
    """What the server sends for each call, to a client that adds nothing."""
    parameters = StdioServerParameters(command=SERVER[0], args=[*SERVER[1:], "--root", str(root), "--preset", "coder"])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        return {kind: await session.call_tool(*call) for kind, call in CALLS.items()}


def kept(client, kind, answer):
    """Return the text of an answer without what the client itself puts around it."""
    if client == "codex":
        found = re.fullmatch(r"Wall time: [0-9.]+ seconds\nOutput:\n?(.*)", answer.text, re.DOTALL)
        assert found, answer
        return found[1]
    if kind == "image":
        assert re.fullmatch(
            {"claude-code": r"\[Image: source: \S+\]", "gemini": r"\[Tool .* image/png\]"}[client], answer.text
        )
        return ""
    if client == "gemini":
        if kind == "error":
            # The whole result as JSON, behind a sentence.
            [part] = json.loads(answer.text[answer.text.index("[{") :])
            return part["functionResponse"]["response"]["content"][0]["text"]
        return answer.text.removeprefix("<untrusted_context>\n").removesuffix("\n</untrusted_context>")
    return answer.text


@pytest.mark.parametrize("client", CODING_CLIENTS)
def test_a_model_gets_what_the_server_sent(clients, client, root, sent, tmp_path):
    answers = dict(zip(CALLS, handed(clients, client, script(), root, tmp_path), strict=True))
    failed = []
    for kind, answer in answers.items():
        text, expected = (
            kept(client, kind, answer),
            "".join(block.text for block in sent[kind].content if block.type == "text"),
        )
        if kind == "error" and client == "codex":
            # It has no flag for an error, and passes the structured form of one.
            text, expected = json.loads(text), json.loads(expected)
        elif answer.error not in (None, sent[kind].is_error):
            failed.append((kind, "error", answer.error))
        if text != expected:
            failed.append((kind, text, expected))
        if list(answer.images) != [block.data for block in sent[kind].content if block.type == "image"]:
            failed.append((kind, "images", answer.images))
    assert failed == []
    assert [kind for kind, result in sent.items() if result.is_error] == ["error"]
    assert len(answers["image"].images) == 1
    assert kept(client, "long", answers["long"]).endswith("of 20000; continue with start_line=1217]")
