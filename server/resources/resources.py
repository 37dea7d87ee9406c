"""Resources: what the server keeps for a caller, to be read without a tool call."""

import re
from collections.abc import Callable
from typing import Any, Literal

import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from ...safety.errors import ToolError
from ...safety.path_jail.roots import Roots
from ...safety.text import visible_name
from ...sandbox.processes import Listed, Processes
from ..records.recorder import Records
from ..transports.caller import ANONYMOUS
from . import executions
from .files import PREFIX as FILES
from .files import Files
from .subscriptions import Updates

Context = ServerRequestContext[Any, Any]

NOT_FOUND = -32002
"""The code for an unknown resource in protocols with a handshake; the stateless one has -32602 for it."""

STREAMS: tuple[Literal["stdout", "stderr"], ...] = ("stdout", "stderr")

TODOS = "toolbox://todos"

_PROCESS = re.compile(r"toolbox://processes/(proc_[0-9]{1,18})/(stdout|stderr)", re.ASCII)


class Resources:
    """The resources of every owner. Each sees its own; what belongs to another is unknown to it."""

    def __init__(
        self,
        processes: Processes,
        updates: Updates,
        todos: Callable[[str], str] = lambda owner: "",
        *,
        roots: Roots | None = None,
        records: Records | None = None,
    ) -> None:
        """Serve the output of processes and the task list of each owner, and tell of changes through updates.

        todos: returns the list of an owner as text, empty where it has none. roots: those whose files may be read; None for
        none. records: those of the calls; None where nothing is recorded.
        """
        self._todos = todos
        self._records = records
        self._files = None
        if roots is not None:
            self._files = Files(
                roots, lambda owner, uri: updates.changed(owner, ResourceUpdated(uri=uri)), updates.pause
            )
        self._processes = processes
        self._updates = updates
        self._listed: dict[str, list[str]] = {}
        processes.when_output(self._output_came)

    def listing(self, owner: str) -> t.ListResourcesResult:
        """Return the output streams of the owner's live processes, and the task list if it has one."""
        todos = t.Resource(uri=TODOS, name="todos", description="Task list of this session", mime_type="text/plain")
        calls = t.Resource(
            uri=executions.URI,
            name="executions",
            description="The newest calls of this session",
            mime_type="application/json",
        )
        return t.ListResourcesResult(
            resources=([calls] if self._records and not owner.startswith(ANONYMOUS) else [])
            + ([todos] if self._todos(owner) else [])
            + [
                t.Resource(
                    uri=_uri(process.id, stream),
                    name=f"{process.id} {stream}",
                    description=f"Unread {stream} of {visible_name(process.name or process.command[:200])}",
                    mime_type="text/plain",
                )
                for process in self._live(owner)
                for stream in STREAMS
            ]
        )

    def templates(self) -> t.ListResourceTemplatesResult:
        """Return the URIs that can be read, listed or not."""
        process = t.ResourceTemplate(
            uri_template="toolbox://processes/{id}/{stream}",
            name="process output",
            description="Output of a background process that process_output has not returned yet; reading it here "
            "leaves it there. stream: stdout or stderr.",
            mime_type="text/plain",
        )
        templates = [process]
        if self._records:
            templates.append(
                t.ResourceTemplate(
                    uri_template="toolbox://executions/{call_id}",
                    name="execution",
                    description="One call of this session, with its arguments and what it answered, secrets masked",
                    mime_type="application/json",
                )
            )
        if self._files:
            templates.append(
                t.ResourceTemplate(
                    uri_template="toolbox://files/{+path}",
                    name="file",
                    description="A file of the project, at most 5 MiB; a subscription tells of changes",
                )
            )
        return t.ListResourceTemplatesResult(resource_templates=templates)

    async def read(self, owner: str, ctx: Context, uri: str) -> t.ReadResourceResult:
        """Return the resource at a URI; MCPError where there is none."""
        kind = "text/plain"
        if self._files and uri.startswith(FILES):
            if content := await self._files.read(uri):
                return t.ReadResourceResult(contents=[content])
            raise _unknown(ctx, uri)
        if uri == TODOS:
            text = self._todos(owner) or None
        elif uri.startswith(executions.URI):
            kind = "application/json"
            text = await self._execution(owner, uri.removeprefix(executions.URI))
        else:
            text = self._output(owner, uri)
        if text is None:
            raise _unknown(ctx, uri)
        return t.ReadResourceResult(contents=[t.TextResourceContents(uri=uri, mime_type=kind, text=text)])

    async def _execution(self, owner: str, rest: str) -> str | None:
        if self._records is None or owner.startswith(ANONYMOUS):
            return None
        if not rest:
            return await executions.listed(self._records, owner)
        return await executions.one(self._records, owner, rest[1:]) if rest.startswith("/") else None

    async def subscribe(self, owner: str, ctx: Context, uri: str) -> t.EmptyResult:
        """Tell the session of the request when a resource changes; MCPError for an unknown one."""
        is_file = uri.startswith(FILES) and self._files is not None and await self._files.read(uri) is not None
        if not is_file and self._output(owner, uri) is None:
            raise _unknown(ctx, uri)
        self._begin(owner)
        for kept in self._updates.subscribed(owner):
            if not kept.startswith(FILES) and self._output(owner, kept) is None:
                self._updates.unsubscribe(owner, kept)
        if self._files and is_file:
            await self._files.watch(owner, [uri])
        self._updates.subscribe(owner, uri, ctx.session)
        return t.EmptyResult()

    def unsubscribe(self, owner: str, uri: str) -> t.EmptyResult:
        """Tell it no more."""
        self._updates.unsubscribe(owner, uri)
        if self._files:
            self._files.forget(owner, uri)
        return t.EmptyResult()

    async def listen(
        self, owner: str, ctx: Context, params: t.SubscriptionsListenRequestParams
    ) -> t.SubscriptionsListenResult:
        """Serve a stream of updates to a stateless client."""
        self._begin(owner)
        if self._files:
            asked = params.notifications.resource_subscriptions or []
            await self._files.watch(owner, [uri for uri in asked if uri.startswith(FILES)])
        return await self._updates.listen(owner, ctx, params)

    def look(self, owner: str) -> None:
        """Tell the owner if what is listed is not what it was at the last look."""
        if not self._updates.is_subscribed(owner):
            return
        live = [process.id for process in self._live(owner)]
        if live != self._listed.get(owner):
            self._listed[owner] = live
            self._updates.changed(owner, ResourcesListChanged())

    def drop(self, owner: str) -> None:
        """Forget who listens for an owner."""
        self._listed.pop(owner, None)
        self._updates.drop(owner)
        if self._files:
            self._files.forget(owner)

    async def aclose(self) -> None:
        """Tell nobody of anything any more."""
        if self._files:
            await self._files.aclose()
        await self._updates.aclose()

    def _begin(self, owner: str) -> None:
        if not self._updates.is_subscribed(owner):
            self._listed[owner] = [process.id for process in self._live(owner)]

    def _output_came(self, owner: str, id_: str, stream: str) -> None:
        self._updates.changed(owner, ResourceUpdated(uri=_uri(id_, stream)))
        self.look(owner)

    def _live(self, owner: str) -> list[Listed]:
        return [process for process in self._processes.of(owner).list() if process.status == "running"]

    def _output(self, owner: str, uri: str) -> str | None:
        match = _PROCESS.fullmatch(uri)
        if not match:
            return None
        try:
            return self._processes.of(owner).peek(match[1], match[2])
        except ToolError:
            return None


def _uri(id_: str, stream: str) -> str:
    return f"toolbox://processes/{id_}/{stream}"


def _unknown(ctx: Context, uri: str) -> MCPError:
    code = NOT_FOUND if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS else t.INVALID_PARAMS
    return MCPError(code, "Resource not found", {"uri": uri[:1000]})
