"""Conformance fixtures that a tool of this project cannot be: they call back to the client or give their own schema.

Their names, schemas and answers are fixed by the conformance suite. fixture_server.py puts them beside its tools.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as t
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged

Ctx = ServerRequestContext[Any, Any]
Schema = dict[str, Any]
Reply = str | t.InputRequiredResult
Handler = Callable[[Ctx, t.CallToolRequestParams], Awaitable[Reply]]

STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
ANYTHING: Schema = {"type": "object"}


@dataclass(frozen=True)
class Fixture:
    """One tool as the suite wants it."""

    name: str
    handler: Handler
    schema: Mapping[str, Any]

    def to_mcp(self) -> t.Tool:
        """Return it as tools/list shows it."""
        return t.Tool(name=self.name, description=f"Conformance fixture {self.name}.", input_schema=dict(self.schema))

    async def call(self, ctx: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult | t.InputRequiredResult:
        """Answer one call."""
        reply = await self.handler(ctx, params)
        return t.CallToolResult(content=[t.TextContent(text=reply)]) if isinstance(reply, str) else reply


def needs(**properties: Schema) -> Schema:
    """Return the schema of an object with these properties, all required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def form(message: str, **properties: Schema) -> t.ElicitRequest:
    """Return a question to the person."""
    return t.ElicitRequest(params=t.ElicitRequestFormParams(message=message, requested_schema=needs(**properties)))


def sampled(message: str) -> t.CreateMessageRequest:
    """Return a question to the client's model."""
    asked = t.SamplingMessage(role="user", content=t.TextContent(text=message))
    return t.CreateMessageRequest(params=t.CreateMessageRequestParams(messages=[asked], max_tokens=100))


# --- tools that speak to a handshake client while they run


async def logs(ctx: Ctx, params: t.CallToolRequestParams) -> Reply:
    """Send three log notifications."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message(level="info", data=message, related_request_id=ctx.request_id)
        await anyio.sleep(0.05)  # the suite wants them apart
    return "Three messages logged."


async def samples(ctx: Ctx, params: t.CallToolRequestParams) -> Reply:
    """Ask the client's model."""
    asked = t.SamplingMessage(role="user", content=t.TextContent(text=(params.arguments or {})["prompt"]))
    answer = await ctx.session.create_message(messages=[asked], max_tokens=100, related_request_id=ctx.request_id)
    assert isinstance(answer.content, t.TextContent)
    return f"LLM response: {answer.content.text}"


def elicits(asked: Schema) -> Handler:
    """Return a tool that asks the person for `asked`."""

    async def ask(ctx: Ctx, params: t.CallToolRequestParams) -> Reply:
        message = (params.arguments or {}).get("message", "Please fill in the form.")
        answer = await ctx.session.elicit_form(message, asked, related_request_id=ctx.request_id)
        return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content or {})}"

    return ask


DEFAULTS: Schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}


def titled(*values: str) -> list[Schema]:
    """Return enumeration members with titles."""
    return [{"const": value, "title": value.title()} for value in values]


ENUMS: Schema = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2"]},
        "titledSingle": {"type": "string", "oneOf": titled("value1", "value2")},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("value1", "value2")}},
        "legacyEnum": {"type": "string", "enum": ["small", "large"], "enumNames": ["Small", "Large"]},
    },
}


# --- tools that answer a stateless client with what they still need


def rounds(wanted: dict[str, Any], state: str | None = None) -> Handler:
    """Return a tool that asks for `wanted` and is done once all of it has come, under the state it gave."""

    async def ask(ctx: Ctx, params: t.CallToolRequestParams) -> Reply:
        given = params.input_responses or {}
        if set(wanted) <= set(given) and (state is None or params.request_state == state):
            return "; ".join(["state-ok", *(told(given[key]) for key in wanted)])
        return t.InputRequiredResult(input_requests=wanted, request_state=state)

    return ask


def told(answer: Any) -> str:
    """Return one answer of the client as the suite looks for it."""
    if isinstance(answer, t.ListRootsResult):
        return f"Client exposed {len(answer.roots)} root(s)."
    if isinstance(answer, t.ElicitResult):
        return f"Hello, {(answer.content or {}).get('name')}!"
    content = getattr(answer, "content", None)
    return f"Model said: {content.text}" if isinstance(content, t.TextContent) else "All inputs received."


async def two_rounds(ctx: Ctx, params: t.CallToolRequestParams) -> Reply:
    """Ask twice; the second question depends on the first having been answered."""
    behind = json.loads(params.request_state or "0")
    given = params.input_responses or {}
    if behind == 1 and "step1" in given:
        return t.InputRequiredResult(input_requests={"step2": form("Step 2", color=STRING)}, request_state="2")
    if behind == 2 and "step2" in given:
        return "Both steps are done."
    return t.InputRequiredResult(input_requests={"step1": form("Step 1", name=STRING)}, request_state="1")


async def what_the_client_can(ctx: Ctx, params: t.CallToolRequestParams) -> Reply:
    """Ask only for what the client declared it can do."""
    able = ctx.session.client_capabilities
    wanted: dict[str, Any] = {}
    if able and able.sampling is not None:
        wanted["sample"] = sampled("Say hello.")
    if able and able.elicitation is not None:
        wanted["ask"] = ASK_NAME
    return t.InputRequiredResult(input_requests=wanted, request_state="asked")


async def sampling_or_nothing(ctx: Ctx, params: t.CallToolRequestParams) -> Reply:
    """Refuse a client that did not declare sampling."""
    able = ctx.session.client_capabilities
    if able is None or able.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(t.MISSING_REQUIRED_CLIENT_CAPABILITY, "The client does not offer sampling.", needed)
    return "The client offers sampling."


async def done(ctx: Ctx, params: t.CallToolRequestParams) -> Reply:
    """Answer whatever comes."""
    return "done"


ASK_NAME = form("What is your name?", name=STRING)

FULL_2020_12: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": STRING, "city": STRING}}},
    "properties": {
        "name": STRING,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": STRING,
        "email": STRING,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def fixtures(bus: InMemorySubscriptionBus) -> dict[str, Fixture]:
    """Return the fixtures by name; `bus` carries what two of them announce."""

    async def tools_changed(ctx: Ctx, params: t.CallToolRequestParams) -> Reply:
        await bus.publish(ToolsListChanged())
        return "announced"

    async def prompts_changed(ctx: Ctx, params: t.CallToolRequestParams) -> Reply:
        await bus.publish(PromptsListChanged())
        return "announced"

    roots = t.ListRootsRequest()
    confirm = {"confirm": form("Go on?", ok=BOOLEAN)}
    capital = {"capital_question": sampled("What is the capital of France?")}
    plain: dict[str, Handler] = {
        "test_tool_with_logging": logs,
        "test_logging_tool": logs,
        "test_missing_capability": sampling_or_nothing,
        "test_trigger_tool_change": tools_changed,
        "test_trigger_prompt_change": prompts_changed,
        "test_elicitation_sep1034_defaults": elicits(DEFAULTS),
        "test_elicitation_sep1330_enums": elicits(ENUMS),
        "test_streaming_elicitation": rounds({"user_name": ASK_NAME}),
        "test_input_required_result_elicitation": rounds({"user_name": ASK_NAME}),
        "test_input_required_result_sampling": rounds(capital),
        "test_input_required_result_list_roots": rounds({"client_roots": roots}),
        "test_input_required_result_request_state": rounds(confirm, "nonce"),
        "test_input_required_result_tampered_state": rounds(confirm, "round-1"),
        "test_input_required_result_multiple_inputs": rounds(
            {"user_name": ASK_NAME, "greeting": sampled("Say hello."), "client_roots": roots}, "asked"
        ),
        "test_input_required_result_multi_round": two_rounds,
        "test_input_required_result_capabilities": what_the_client_can,
    }
    found = {name: Fixture(name, handler, ANYTHING) for name, handler in plain.items()}
    for name, handler, schema in (
        ("test_sampling", samples, needs(prompt=STRING)),
        ("test_elicitation", elicits(needs(response=STRING)), needs(message=STRING)),
        ("json_schema_2020_12_tool", done, FULL_2020_12),
    ):
        found[name] = Fixture(name, handler, schema)
    return found
