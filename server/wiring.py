"""Puts the parts together: which object answers for each service that a handler asks for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from toolbox_mcp.sandbox.processes import OwnedProcesses, Processes, ProcessRows
from toolbox_mcp.sandbox.programs import Programs, Toolchains
from toolbox_mcp.sandbox.ripgrep import Ripgrep
from toolbox_mcp.sandbox.service import Sandbox
from toolbox_mcp.sandbox.shell import OwnedSessions, ShellRunner, ShellSessions
from toolbox_mcp.sandbox.worker import Worker
from toolbox_mcp.server.calls import Call, Provider
from toolbox_mcp.server.sessions import Owners
from toolbox_mcp.tools.context import CallContext
from toolbox_mcp.tools.edit.journal import Journal
from toolbox_mcp.tools.progress import Progress
from toolbox_mcp.tools.session import SeenFiles, Session, TodoList
from toolbox_mcp.tools.settings import ToolSettings


@dataclass(frozen=True)
class Parts:
    """The objects that live as long as the server."""

    settings: ToolSettings
    programs: Programs
    worker: Worker
    ripgrep: Ripgrep
    sandbox: Sandbox
    owners: Owners
    toolchains: Toolchains
    processes: Processes
    shells: ShellRunner
    shell_sessions: ShellSessions


def providers(parts: Parts) -> Mapping[type, Provider]:
    """Return, for each type of service, how a call gets its object."""

    def session(call: Call) -> Session:
        return parts.owners.of(call.context.session or "").session

    def journal(call: Call) -> Journal:
        return session(call).history.journal(call.id, call.tool.name, parts.settings.undo_max_bytes)

    return {
        ToolSettings: lambda call: parts.settings,
        Programs: lambda call: parts.programs,
        Toolchains: lambda call: parts.toolchains,
        Worker: lambda call: parts.worker,
        Ripgrep: lambda call: parts.ripgrep,
        Sandbox: lambda call: parts.sandbox,
        CallContext: lambda call: call.context,
        Progress: lambda call: call.progress,
        OwnedProcesses: lambda call: parts.processes.of(call.context.session or ""),
        ProcessRows: lambda call: ProcessRows(parts.processes, call.context.session or ""),
        ShellRunner: lambda call: parts.shells,
        OwnedSessions: lambda call: parts.shell_sessions.of(call.context.session or ""),
        TodoList: lambda call: session(call).todos,
        SeenFiles: lambda call: session(call).seen,
        Journal: journal,
    }


def noting(parts: Parts) -> Callable[[Call], None]:
    """Return what notes, in the history of its session, each call that may change files."""

    def note(call: Call) -> None:
        history = parts.owners.of(call.context.session or "").session.history
        history.began(call.id, call.tool.name, journals=Journal in call.tool.services.values())

    return note
