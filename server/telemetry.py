"""OpenTelemetry: where spans and metrics of requests go, and what the SDK's own spans lack.

Nothing here, and nothing of the packages that it needs, is imported unless an endpoint is configured or the program
that embeds the server collects spans by itself.
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any
from uuid import uuid4

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND
from opentelemetry import metrics, trace

from .config.errors import ConfigError
from .transports.caller import caller

NAME = "toolbox-mcp"
EXPORT_TIMEOUT = 5.0
"""Seconds for one export. A guess: a collector stands near."""
CLOSE_TIMEOUT = 1.0
"""Seconds that the end of the server waits for the last export; clients kill a server that takes 2 s."""
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Bounds of the histogram in seconds, as the semantic conventions for MCP have them."""


@contextmanager
def exporting(endpoint: str) -> Iterator[None]:
    """Export spans and metrics of this process to an OTLP/HTTP endpoint within the block; the rest goes at its end.

    Headers, certificates and intervals come from the OTEL_ variables, which the packages read themselves. A collector
    that does not answer is logged and costs no call anything. Raises ConfigError where the packages are missing.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ConfigError("otel_endpoint: install the extra otel, as in pip install 'toolbox-mcp[otel]'") from None
    base = endpoint.rstrip("/")
    about = {"service.name": NAME, "service.version": version(NAME), "service.instance.id": str(uuid4())}
    resource = Resource.create({**about, **_named(os.environ)})
    # An event would hold the text and the frames of an exception, and so perhaps what a client sent.
    spans = TracerProvider(resource=resource, span_limits=SpanLimits(max_events=0), shutdown_on_exit=False)
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{base}/v1/traces", timeout=EXPORT_TIMEOUT)))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{base}/v1/metrics", timeout=EXPORT_TIMEOUT))
    meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    trace.set_tracer_provider(spans)
    metrics.set_meter_provider(meters)
    try:
        yield
    finally:
        ends = [threading.Thread(target=provider.shutdown, daemon=True) for provider in (spans, meters)]
        until = time.monotonic() + CLOSE_TIMEOUT
        for end in ends:
            end.start()
        for end in ends:
            end.join(max(0.0, until - time.monotonic()))


def _named(env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the name that the operator gives the service, which else the package's would override."""
    return {"service.name": env["OTEL_SERVICE_NAME"]} if env.get("OTEL_SERVICE_NAME") else {}


class Telemetry(ServerMiddleware[Any]):
    """Stands below the SDK's middleware, which makes the span of a request: adds to it, and measures durations.

    Names of methods and tools are told, ids, and codes of errors; never arguments, answers or the texts of a tool's errors.
    """

    def __init__(self) -> None:
        """Make the instrument."""
        self._duration = metrics.get_meter(NAME, version(NAME)).create_histogram(
            "mcp.server.operation.duration",
            unit="s",
            description="Duration of an MCP request or notification as the server sees it",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass a request on, and tell how it ended."""
        about: dict[str, str | int] = {
            "mcp.method.name": ctx.method,
            "mcp.protocol.version": ctx.protocol_version,
            "network.transport": "pipe" if ctx.request is None else "tcp",
        }
        name = (ctx.params or {}).get("name")
        span = trace.get_current_span()
        span.set_attribute("network.transport", about["network.transport"])
        who = caller(ctx)
        if ctx.request is not None and who.session_id is not None:
            span.set_attribute("mcp.session.id", who.session_id)
        since = time.perf_counter()
        try:
            result = await call_next(ctx)
            # A name that nothing has is the client's word, of which there is no end.
            if ctx.method == "tools/call":
                about |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": str(name)}
                about |= _told(result, span)
            elif ctx.method == "prompts/get":
                about["gen_ai.prompt.name"] = str(name)
            return result
        except MCPError as e:
            about |= {"error.type": str(e.error.code), "rpc.response.status_code": str(e.error.code)}
            if e.error.code == METHOD_NOT_FOUND:
                about["mcp.method.name"] = "_OTHER"
            raise
        except BaseException as e:
            about["error.type"] = type(e).__qualname__
            raise
        finally:
            self._duration.record(time.perf_counter() - since, about)


def _told(result: HandlerResult, span: trace.Span) -> Mapping[str, str]:
    """Tell the span the id of a call's record and the code of its error; return what the metric has of an error."""
    if not isinstance(result, dict):
        return {}
    span.set_attribute("toolbox.call_id", result.get("_meta", {}).get("call_id", ""))
    if not result.get("isError"):
        return {}
    code = str(result["structuredContent"]["code"])
    span.set_attribute("toolbox.error.code", code)
    return {"error.type": "tool_error", "toolbox.error.code": code}
