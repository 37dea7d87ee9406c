"""A model on loopback that says what a script says: a real client calls the tools, and the script sees what it would tell a model.

It speaks the interfaces that the clients expect of their model: Anthropic's Messages, OpenAI's Responses, Gemini's
generateContent.
"""

import json
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Generator[tuple[str, dict[str, Any]], str, None]
"""Yields tools to call, and is sent what each answered."""


@dataclass(frozen=True)
class Answer:
    """What a client hands to its model for one call. error: None where the interface has no word for it."""

    text: str
    images: tuple[str, ...] = ()
    error: bool | None = None


@dataclass(frozen=True)
class Interface:
    """How a client asks its model.

    answers: the results of tools that a request holds, in order. events: the stream that calls a tool, or that ends
    the turn; the number is that of the call.
    """

    answers: Callable[[dict[str, Any]], list[Answer]]
    events: Callable[[int, tuple[str, dict[str, Any]] | None], list[dict[str, Any]]]


def _line(event: dict[str, Any]) -> str:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


def _blocks(result: dict[str, Any]) -> Answer:
    """Return what a block of the type tool_result holds."""
    content: Any = result["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return Answer(
        "".join(part["text"] for part in content if part["type"] == "text"),
        tuple(part["source"]["data"] for part in content if part["type"] == "image"),
        result.get("is_error", False),
    )


def _messages_answers(request: dict[str, Any]) -> list[Answer]:
    contents = [message["content"] for message in request["messages"] if isinstance(message["content"], list)]
    return [_blocks(part) for content in contents for part in content if part.get("type") == "tool_result"]


def _messages_events(number: int, call: tuple[str, dict[str, Any]] | None) -> list[dict[str, Any]]:
    if call:
        block = {"type": "tool_use", "id": f"toolu_{number:04}", "name": f"mcp__toolbox__{call[0]}", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "stand-in", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


def _responses_answers(request: dict[str, Any]) -> list[Answer]:
    answers = []
    for item in request["input"]:
        if item["type"] != "function_call_output":
            continue
        parts = item["output"]
        if isinstance(parts, str):
            parts = [{"type": "input_text", "text": parts}]
        answers.append(
            Answer(
                "".join(part["text"] for part in parts if part["type"] == "input_text"),
                tuple(part["image_url"].partition(",")[2] for part in parts if part["type"] == "input_image"),
            )
        )
    return answers


def _responses_events(number: int, call: tuple[str, dict[str, Any]] | None) -> list[dict[str, Any]]:
    item: dict[str, Any]
    if call:
        item = {
            "type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "namespace": "mcp__toolbox",
            "name": call[0], "arguments": json.dumps(call[1]),
        }  # fmt: skip
    else:
        text = {"type": "output_text", "text": "done"}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [text]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
    ]


def _gemini_answers(request: dict[str, Any]) -> list[Answer]:
    answers = []
    for content in request["contents"]:
        responses = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        images = tuple(part["inlineData"]["data"] for part in content["parts"] if "inlineData" in part)
        # Images stand beside the response of their call, and a script makes one call at a time.
        for response in responses:
            ((key, text),) = response["response"].items()
            answers.append(Answer(text, images, key == "error"))
    return answers


def _gemini_events(number: int, call: tuple[str, dict[str, Any]] | None) -> list[dict[str, Any]]:
    part = {"functionCall": {"name": f"mcp_toolbox_{call[0]}", "args": call[1]}} if call else {"text": "done"}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return [{"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stand-in"}]


MESSAGES = Interface(_messages_answers, _messages_events)
RESPONSES = Interface(_responses_answers, _responses_events)
GEMINI = Interface(_gemini_answers, _gemini_events)


class Model:
    """results: what the tools answered, in order, as the client passes it on."""

    def __init__(self, script: Script, interface: Interface) -> None:
        self.results: list[Answer] = []
        self.url = ""
        self._script = script
        self._interface = interface
        self._steps: list[tuple[str, dict[str, Any]] | None] = []
        self._lock = threading.Lock()

    def events(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the stream that follows a request: the next call, or the end of the turn."""
        if not request.get("tools"):
            return self._interface.events(0, None)
        with self._lock:
            self.results = self._interface.answers(request)
            # A client may repeat a request.
            if len(self._steps) == len(self.results):
                self._steps.append(self._next())
            return self._interface.events(len(self.results), self._steps[len(self.results)])

    def _next(self) -> tuple[str, dict[str, Any]] | None:
        try:
            return self._script.send(self.results[-1].text) if self.results else next(self._script)
        except StopIteration:
            return None


@contextmanager
def scripted(script: Script, interface: Interface) -> Iterator[Model]:
    """Serve a script until the block ends."""
    model = Model(script, interface)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(200, b"")

        def do_GET(self) -> None:
            self._answer(404, b"")

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            events = model.events(request)
            if request.get("stream") or "streamGenerateContent" in self.path:
                self._answer(200, "".join(map(_line, events)).encode(), "text/event-stream")
            else:
                message = {**events[0].get("message", events[0]), "content": [{"type": "text", "text": "done"}]}
                self._answer(200, json.dumps(message).encode(), "application/json")

        def _answer(self, status: int, data: bytes, kind: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
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
