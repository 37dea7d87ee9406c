"""What a handler may ask for by type, and the access that asking takes."""

from typing import Annotated

from ..sandbox import git, processes, programs, ripgrep, service, shell
from ..sandbox.isolate import worker
from . import context, outputs, progress, session, settings
from .base import Access, Service
from .code import _tree
from .undo import journal
from .web import _http, _page_reader, _search

Settings = Annotated[settings.ToolSettings, Service()]
Context = Annotated[context.CallContext, Service()]
Progress = Annotated[progress.Progress, Service()]
Todos = Annotated[session.TodoList, Service(Access.STATE)]
Seen = Annotated[session.SeenFiles, Service()]
Outputs = Annotated[outputs.Outputs, Service()]
"""The outputs of programs that were cut, for reading on."""
Journal = Annotated[journal.Journal, Service(Access.WRITE)]
"""Where a call that changes files notes what undo needs."""
Parser = Annotated[worker.Worker, Service()]
"""A process that a deadline can kill, for parsing what might hang or blow up."""
Outlines = Annotated[_tree.Outlines, Service()]
"""What is remembered of the definitions in files, for all sessions."""
Search = Annotated[ripgrep.Ripgrep, Service()]
"""The search program. It only reads, and only what its arguments name below a folder that is open already."""
GitReads = Annotated[git.GitReads, Service()]
"""git commands that only read, on a folder of ours in place of the repository's own."""
GitWrites = Annotated[git.GitWrites, Service(Access.WRITE)]
"""git commands that change the index, refs or the work tree."""
Http = Annotated[_http.Http, Service(Access.NET)]
"""Fetches what the operator's rules on URLs allow."""
PageReader = Annotated[_page_reader.PageReader, Service(Access.NET)]
"""The same, for pages: what has not changed is not transferred again, and robots.txt is obeyed where the operator says so."""
SearchEngine = Annotated[_search.Engine, Service(Access.NET)]
Programs = Annotated[programs.Programs, Service(Access.EXEC)]
Toolchains = Annotated[programs.Toolchains, Service(Access.EXEC)]
"""Runs a project's own tools, with the operator's full environment."""
Sandbox = Annotated[service.Sandbox, Service(Access.EXEC)]
"""Runs programs confined."""
Processes = Annotated[processes.OwnedProcesses, Service(Access.STATE)]
"""The background processes of the caller. Starting one and writing to one is for Access.EXEC."""
ProcessRows = Annotated[processes.ProcessRows, Service()]
"""The list of them, and nothing that changes it."""
Shells = Annotated[shell.ShellRunner, Service(Access.EXEC)]
"""Runs shell commands that have been checked."""
ShellSessions = Annotated[shell.OwnedSessions, Service(Access.EXEC)]
