"""Conformance fixtures beside tools: resources, prompts, completion, log level. The suite fixes every name and text."""

import base64
from typing import Any

import mcp_types as t
from interop.fixtures_raw import STRING, Ctx, form
from mcp import MCPError
from mcp.server import Server

PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c02"
        "0000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082"
    )
).decode()
"""A picture of one pixel."""
WAV = base64.b64encode(
    b"RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00@\x1f\x00\x00\x80>\x00\x00\x02\x00\x10\x00data"
    + bytes(4)
).decode()
"""A sound of no length."""

TEXT_RESOURCES = {
    "test://static-text": "This is the content of the static text resource.",
    "test://watched-resource": "This is the content of the watched resource.",
}
BINARY_RESOURCE = "test://static-binary"

PROMPTS = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


def embedded(uri: str, mime_type: str, text: str) -> t.EmbeddedResource:
    """Return a text resource as a content block."""
    return t.EmbeddedResource(resource=t.TextResourceContents(uri=uri, mime_type=mime_type, text=text))


async def list_resources(ctx: Ctx, params: t.PaginatedRequestParams | None) -> t.ListResourcesResult:
    """Return the resources with fixed addresses."""
    texts = [t.Resource(uri=uri, name=uri[7:], mime_type="text/plain") for uri in TEXT_RESOURCES]
    binary = t.Resource(uri=BINARY_RESOURCE, name=BINARY_RESOURCE[7:], mime_type="image/png")
    return t.ListResourcesResult(resources=[*texts, binary])


async def list_templates(ctx: Ctx, params: t.PaginatedRequestParams | None) -> t.ListResourceTemplatesResult:
    """Return the one template."""
    template = t.ResourceTemplate(uri_template="test://template/{id}/data", name="data", mime_type="application/json")
    return t.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(ctx: Ctx, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
    """Return one resource."""
    uri = str(params.uri)
    if uri in TEXT_RESOURCES:
        text = t.TextResourceContents(uri=uri, mime_type="text/plain", text=TEXT_RESOURCES[uri])
        return t.ReadResourceResult(contents=[text])
    if uri == BINARY_RESOURCE:
        blob = t.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
        return t.ReadResourceResult(contents=[blob])
    if uri.startswith("test://template/") and uri.endswith("/data"):
        number = uri.split("/")[3]
        filled = f'{{"id":"{number}","templateTest":true,"data":"Data for ID: {number}"}}'
        data = t.TextResourceContents(uri=uri, mime_type="application/json", text=filled)
        return t.ReadResourceResult(contents=[data])
    raise MCPError(t.INVALID_PARAMS, "Resource not found", {"uri": uri})


async def subscribe(ctx: Ctx, params: t.SubscribeRequestParams) -> t.EmptyResult:
    """Accept; nothing here ever changes."""
    return t.EmptyResult()


async def unsubscribe(ctx: Ctx, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
    """Accept."""
    return t.EmptyResult()


async def list_prompts(ctx: Ctx, params: t.PaginatedRequestParams | None) -> t.ListPromptsResult:
    """Return the prompts."""
    return t.ListPromptsResult(
        prompts=[
            t.Prompt(
                name=name,
                description=f"Conformance fixture {name}.",
                arguments=[t.PromptArgument(name=argument, required=True) for argument in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
    )


def said(*content: t.ContentBlock) -> t.GetPromptResult:
    """Return messages of the person, one for each block."""
    return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=block) for block in content])


async def get_prompt(ctx: Ctx, params: t.GetPromptRequestParams) -> t.GetPromptResult | t.InputRequiredResult:
    """Return one prompt, filled in."""
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return said(t.TextContent(text="This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            text = f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
            return said(t.TextContent(text=text))
        case "test_prompt_with_embedded_resource":
            resource = embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing.")
            return said(resource, t.TextContent(text="Please process the embedded resource above."))
        case "test_prompt_with_image":
            image = t.ImageContent(data=PNG, mime_type="image/png")
            return said(image, t.TextContent(text="Please analyze the image above."))
        case "test_input_required_result_prompt":
            if "user_context" in (params.input_responses or {}):
                return said(t.TextContent(text="The context has come."))
            return t.InputRequiredResult(input_requests={"user_context": form("Which context?", context=STRING)})
    raise MCPError(t.INVALID_PARAMS, f"Unknown prompt: {params.name}")


async def complete(ctx: Ctx, params: t.CompleteRequestParams) -> t.CompleteResult:
    """Return the prompts that begin like the argument."""
    values = [name for name in sorted(PROMPTS) if name.startswith(params.argument.value)]
    return t.CompleteResult(completion=t.Completion(values=values, total=len(values), has_more=False))


def add_content(server: Server[Any]) -> None:
    """Give a server these resources, prompts and completions; its capabilities follow."""
    server.add_request_handler("resources/list", t.PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", t.PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", t.ReadResourceRequestParams, read_resource)
    server.add_request_handler("resources/subscribe", t.SubscribeRequestParams, subscribe)
    server.add_request_handler("resources/unsubscribe", t.UnsubscribeRequestParams, unsubscribe)
    server.add_request_handler("prompts/list", t.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", t.GetPromptRequestParams, get_prompt)
    server.add_request_handler("completion/complete", t.CompleteRequestParams, complete)
