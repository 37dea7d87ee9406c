"""A model on loopback that says what a script says: a real client calls the tools, and the script sees what it would tell a model."""

import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Generator[tuple[str, dict[str, Any]], str, None]
"""Yields tools to call, and is sent what each answered."""


class Model:
    """answers: what the tools answered, in order, as the client passes it on."""

    def __init__(self, script: Script, prefix: str) -> None:
        self.answers: list[str] = []
        self.url = ""
        self._script = script
        self._prefix = prefix
        self._steps: list[tuple[str, dict[str, Any]] | None] = []
        self._lock = threading.Lock()

    def said(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return the tool call that follows the results of a request, None at the end of the script."""
        results = [
            part
            for message in request["messages"]
            if isinstance(message["content"], list)
            for part in message["content"]
            if part.get("type") == "tool_result"
        ]
        with self._lock:
            self.answers = [_text(result["content"]) for result in results]
            # A client may repeat a request.
            if len(self._steps) == len(results):
                self._steps.append(self._next())
            step = self._steps[len(results)]
        if step is None:
            return None
        name, arguments = step
        return {"id": f"toolu_{len(results):04}", "name": self._prefix + name, "arguments": arguments}

    def _next(self) -> tuple[str, dict[str, Any]] | None:
        try:
            return self._script.send(self.answers[-1]) if self.answers else next(self._script)
        except StopIteration:
            return None


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@contextmanager
def scripted(script: Script, prefix: str) -> Iterator[Model]:
    """Serve a script by the Messages API until the block ends. prefix: what stands before the name of a tool."""
    model = Model(script, prefix)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(200, b"")

        def do_GET(self) -> None:
            self._answer(404, b"")

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            call = model.said(request) if request.get("tools") else None
            if request.get("stream"):
                self._answer(200, _events(request["model"], call), "text/event-stream")
            else:
                message = {**_message(request["model"]), "content": [{"type": "text", "text": "done"}]}
                self._answer(200, json.dumps(message).encode(), "application/json")

        def _answer(self, status: int, data: bytes, kind: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()


def _message(model: str) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def _events(model: str, call: dict[str, Any] | None) -> bytes:
    if call:
        block = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call["arguments"])}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    events = (
        {"type": "message_start", "message": _message(model)},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    )
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
