"""Puts the parts together: which object answers for each service that a handler asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..sandbox.git import Git, GitReads, GitWrites
from ..sandbox.isolate.worker import Worker
from ..sandbox.processes import OwnedProcesses, Processes, ProcessRows
from ..sandbox.programs import Programs, Toolchains
from ..sandbox.ripgrep import Ripgrep
from ..sandbox.service import Sandbox
from ..sandbox.shell import OwnedSessions, ShellRunner, ShellSessions
from ..tools.code._tree import Outlines
from ..tools.context import CallContext
from ..tools.outputs import Outputs
from ..tools.progress import Progress
from ..tools.session import SeenFiles, Session, TodoList
from ..tools.settings import ToolSettings
from ..tools.undo.journal import Journal
from ..tools.web._http import Http
from ..tools.web._page_reader import PageReader
from ..tools.web._search import Engine, Tavily
from .call.call import Call, Provider
from .resources.sessions import SessionStore


@dataclass(frozen=True)
class Services:
    """The objects that live as long as the server."""

    settings: ToolSettings
    programs: Programs
    worker: Worker
    ripgrep: Ripgrep
    git: Git
    sandbox: Sandbox
    owners: SessionStore
    toolchains: Toolchains
    processes: Processes
    shells: ShellRunner
    shell_sessions: ShellSessions
    http: Http = field(default_factory=Http)
    reader: PageReader | None = None
    engine: Engine | None = None
    outlines: Outlines = field(default_factory=Outlines)


def providers(parts: Services) -> Mapping[type, Provider]:
    """Return, for each type of service, how a call gets its object."""

    def session(call: Call) -> Session:
        return parts.owners.of(call.context.session or "").session

    def journal(call: Call) -> Journal:
        return session(call).history.journal(call.tool.name, parts.settings.undo_max_bytes)

    return {
        ToolSettings: lambda call: parts.settings,
        Programs: lambda call: parts.programs,
        Toolchains: lambda call: parts.toolchains,
        Worker: lambda call: parts.worker,
        Outlines: lambda call: parts.outlines,
        Ripgrep: lambda call: parts.ripgrep,
        GitReads: lambda call: parts.git.reads,
        GitWrites: lambda call: parts.git.writes,
        Http: lambda call: parts.http,
        PageReader: lambda call: parts.reader or PageReader(parts.http),
        Engine: lambda call: parts.engine or Tavily(parts.http, None),
        Sandbox: lambda call: parts.sandbox,
        CallContext: lambda call: call.context,
        Progress: lambda call: call.progress,
        OwnedProcesses: lambda call: parts.processes.of(call.context.session or ""),
        ProcessRows: lambda call: ProcessRows(parts.processes, call.context.session or ""),
        ShellRunner: lambda call: parts.shells,
        OwnedSessions: lambda call: parts.shell_sessions.of(call.context.session or ""),
        TodoList: lambda call: session(call).todos,
        SeenFiles: lambda call: session(call).seen,
        Outputs: lambda call: session(call).outputs,
        Journal: journal,
    }
