"""Telemetry as a collector receives it: OTLP over HTTP, on loopback."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SERVER = str(Path(sys.executable).with_name("toolbox-mcp"))
SECRET = "hunter2-hunter2-hunter2"
TRACE = "0af7651916cd43dd8448eb211c80319c"
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


@dataclass
class Collector:
    """What arrived: the raw bodies, and who sent them."""

    url: str
    bodies: list[tuple[str, bytes]] = field(default_factory=list)
    headers: list[str | None] = field(default_factory=list)

    def spans(self) -> dict[str, Any]:
        """Return the spans by name; each name is used once in these tests."""
        found = {}
        for path, body in self.bodies:
            if path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        found |= {span.name: span for span in scope.spans}
        return found

    def points(self) -> list[Any]:
        """Return the last points of the histogram."""
        found: list[Any] = []
        for path, body in self.bodies:
            if path == "/v1/metrics":
                for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for scope in resource.scope_metrics:
                        for metric in scope.metrics:
                            if metric.name == "mcp.server.operation.duration":
                                found = list(metric.histogram.data_points)
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    received = Collector("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.bodies.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            received.headers.append(self.headers["authorization"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        received.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield received
        server.shutdown()
        thread.join()


def attributes(each: Any) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in each.attributes}


@contextmanager
def served(tmp_path: Path, *flags: str) -> Iterator[Any]:
    """Serve over stdio, and yield a function that makes a request; the server has ended when the block is left."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project/a.txt").write_text(f"token = {SECRET}\n")
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic%20abc"}
    with subprocess.Popen(
        [SERVER, "--root", str(tmp_path / "project"), *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        text=True,
    ) as server:
        assert server.stdin and server.stdout and server.stderr
        lines = server.stdin, server.stdout

        def ask(number: int, method: str, params: dict[str, Any]) -> Any:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            lines[0].write(json.dumps(message) + "\n")
            lines[0].flush()
            return json.loads(lines[1].readline())

        ask(1, "initialize", INITIALIZE)
        server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        yield ask
        server.stdin.close()
        assert server.wait(20) == 0, server.stderr.read()


@pytest.mark.slow
def test_a_collector_gets_spans_and_durations_but_no_arguments_or_answers(tmp_path: Path, collector: Collector) -> None:
    with served(tmp_path, "--set", f"otel_endpoint={collector.url}") as ask:
        parent = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
        read = ask(2, "tools/call", {"name": "read_file", "arguments": {"path": "a.txt"}, "_meta": parent})
        ask(3, "tools/call", {"name": "tree", "arguments": {"path": "../" + SECRET}})
        ask(4, "tools/call", {"name": SECRET, "arguments": {}})
        ask(5, "prompts/get", {"name": "explain_repository", "arguments": {"path": SECRET}})
        ask(6, "tools/list", {})
        ask(7, f"no/{SECRET}", {})
    spans = collector.spans()
    told = attributes(spans["tools/call read_file"])
    assert spans["tools/call read_file"].trace_id.hex() == TRACE
    assert told == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-11-25",
        "jsonrpc.request.id": "2",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "read_file",
        "network.transport": "pipe",
        "toolbox.call_id": read["result"]["_meta"]["call_id"],
    }
    refused = attributes(spans["tools/call tree"])
    assert (refused["error.type"], refused["toolbox.error.code"]) == ("tool_error", "path_denied")
    points = [(attributes(point), point.count) for point in collector.points()]
    seen = {
        (told["mcp.method.name"], told.get("gen_ai.tool.name"), told.get("error.type"), count) for told, count in points
    }
    assert {
        ("tools/call", "read_file", None, 1),
        ("tools/call", "tree", "tool_error", 1),
        ("tools/call", None, "-32602", 1),
        ("tools/list", None, None, 1),
        ("_OTHER", None, "-32601", 1),
    } <= seen
    assert list(collector.points()[0].explicit_bounds)[:3] == [0.01, 0.02, 0.05]
    assert set(collector.headers) == {"Basic abc"}
    # What a client calls a tool or a method is in the name of its span, and nowhere else.
    told_of = [span for name, span in spans.items() if SECRET not in name]
    assert len(told_of) >= 5
    assert not [span.name for span in told_of if SECRET.encode() in span.SerializeToString()]
    assert not [body for path, body in collector.bodies if path == "/v1/metrics" and SECRET.encode() in body]


@pytest.mark.slow
def test_a_span_of_a_request_over_http_tells_the_session(tmp_path: Path, collector: Collector) -> None:
    (tmp_path / "project").mkdir()
    flags = ["--transport", "http", "--port", "0", "--set", "confine=strict", "--set", f"otel_endpoint={collector.url}"]
    argv = [SERVER, "--root", str(tmp_path / "project"), *flags]
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    with subprocess.Popen(argv, stderr=subprocess.PIPE, env=env, text=True) as server:
        assert server.stderr
        url = server.stderr.readline().split()[-1]
        headers = {"accept": "application/json, text/event-stream"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
        session = httpx.post(url, json=message, headers=headers).headers["mcp-session-id"]
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        more = {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
        assert httpx.post(url, json=listing, headers=headers | more).status_code == 200
        server.terminate()
        server.communicate(timeout=30)
    told = attributes(collector.spans()["tools/list"])
    assert (told["mcp.session.id"], told["network.transport"]) == (session, "tcp")
    assert {attributes(point)["network.transport"] for point in collector.points()} == {"tcp"}
    assert not [body for path, body in collector.bodies if path == "/v1/metrics" and session.encode() in body]


@pytest.mark.slow
def test_a_collector_that_is_gone_keeps_no_server_alive(tmp_path: Path) -> None:
    with served(tmp_path, "--set", "otel_endpoint=http://127.0.0.1:1") as ask:
        answer = ask(2, "tools/call", {"name": "read_file", "arguments": {"path": "a.txt"}})
        assert answer["result"]["isError"] is False
        since = time.monotonic()
    # The end waits a second at most; the rest is room for a busy machine.
    assert time.monotonic() - since < 10


def test_nothing_of_it_is_imported_where_no_endpoint_is_set() -> None:
    loaded = "import sys, toolbox_mcp.server.commands.serve as _; print([name for name in sys.modules if %s])"
    what = "name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter', 'toolbox_mcp.server.telemetry'))"
    done = subprocess.run([sys.executable, "-c", loaded % what], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_endpoint_without_the_packages_stops_the_start(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    hidden = "import sys; sys.modules['opentelemetry.sdk.trace'] = None; from toolbox_mcp.server.cli import main; "
    start = f"sys.exit(main(['--root', {str(project)!r}, '--set', 'otel_endpoint=http://127.0.0.1:1']))"
    done = subprocess.run(
        [sys.executable, "-c", hidden + start], capture_output=True, text=True, env={"HOME": str(tmp_path)}, check=False
    )
    assert (done.returncode, done.stderr) == (
        2,
        "toolbox-mcp: otel_endpoint: install the extra otel, as in pip install 'toolbox-mcp[otel]'\n",
    )
