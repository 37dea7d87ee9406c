import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from mcp import Client
from mcp_types import CallToolResult, TextContent

from toolbox_mcp.safety.path_jail.roots import Roots
from toolbox_mcp.safety.policy import Policy
from toolbox_mcp.sandbox.environment import which
from toolbox_mcp.sandbox.git import Git, GitSettings
from toolbox_mcp.sandbox.isolate.worker import Worker
from toolbox_mcp.sandbox.processes import Processes
from toolbox_mcp.sandbox.programs import Programs, Toolchains
from toolbox_mcp.sandbox.ripgrep import find_ripgrep
from toolbox_mcp.sandbox.service import Sandbox, SandboxSettings
from toolbox_mcp.sandbox.shell import ShellRunner, ShellSessions
from toolbox_mcp.server.app import build
from toolbox_mcp.server.budget.budget import Budget
from toolbox_mcp.server.budget.tokenizers import tokenizer_for
from toolbox_mcp.server.call.exposure import ExposurePolicy, expose
from toolbox_mcp.server.call.pipeline import Pipeline, Rules
from toolbox_mcp.server.completions import Completions
from toolbox_mcp.server.resources.resources import Resources
from toolbox_mcp.server.resources.sessions import SessionStore
from toolbox_mcp.server.resources.subscriptions import Updates
from toolbox_mcp.server.services import Services, providers
from toolbox_mcp.tools.catalogue import load_tools
from toolbox_mcp.tools.settings import ToolSettings
from toolbox_mcp.tools.web._http import Http
from toolbox_mcp.tools.web._page_reader import PageReader

MAX_ID = 100
"""Characters of a parameter in the name of a test; names go to every worker."""


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Name a long text by its length."""
    return f"{argname}-{len(val)}" if isinstance(val, (str, bytes)) and len(val) > MAX_ID else None


OPEN = ExposurePolicy(enable_exec_tools=True, enable_shell=True)

UNDO_ID = re.compile(r" \[undo: c\d+\]\Z")
"""How the answer of a change ends."""
TESTS = Path(__file__).parent
FOLDERS = {TESTS / "interop": "slow", TESTS / "sandbox" / "escapes": "attack"}
"""The marks of all that is in a folder."""

# The numbers of examples stand here and not in tests. .ci/run asks for the second one.
# How long an example takes says how busy the machine is.
for name, examples in {"few examples": 40, "many examples": 200}.items():
    settings.register_profile(name, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("few examples")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of folders, and those that start containers, which share one store and cannot run side by side."""
    for item in items:
        containers = "image" in getattr(item, "fixturenames", ())
        folder = next((folder for folder in FOLDERS if folder in item.path.parents), None)
        if containers:
            item.add_marker(pytest.mark.attack)
            item.add_marker(pytest.mark.xdist_group("podman"))
        elif folder:
            item.add_marker(FOLDERS[folder])
            # What the tests of a file share is made once.
            item.add_marker(pytest.mark.xdist_group("podman" if "container" in item.path.stem else item.path.stem))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return an empty folder to work on, with its links resolved."""
    root = tmp_path / "project"
    root.mkdir()
    return root.resolve()


class Box:
    """A server in memory, as one client session sees it. Change its parts before the first call."""

    def __init__(self, root: Path) -> None:
        self.roots: list[Path] = [root]
        self.gate = OPEN
        self.settings = ToolSettings()
        self.rules = Rules(structured_output=True)
        self.tokens = 2000
        self.undo_ids = False
        """Whether the answers of changes keep the ids with which they end."""
        self.allowed_commands: tuple[str, ...] = ()
        self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        self.max_processes = 8
        self.git_settings: dict[str, Any] = {}
        self.toolchain_env: dict[str, str] = {}
        self.shell: dict[str, Any] = {}
        self.jail: dict[str, Any] = {}
        self.extra: dict[str, Any] = {}
        self.http = Http()
        self.reader: PageReader | None = None
        self.engine: Any = None
        self.client_options: dict[str, Any] = {}
        self.catalogue = load_tools()
        self.overrides: list[tuple[str, str]] = []
        self.sandbox = SandboxSettings(state=root.parent / "state", temp=root.parent, home="/nonexistent", env=self.env)
        self.owners = SessionStore()
        self.updates = Updates()
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._last: list[Callable[[], None]] = []

    async def client(self) -> Client:
        """Return the connected client."""
        if self._client is None:
            roots = Roots(self.roots, **self.jail)
            worker = Worker()
            sandbox = Sandbox(self.sandbox)
            programs = Programs(str(roots.base), self.env, zygote=sandbox.zygote)
            ripgrep = find_ripgrep(roots.descriptors)
            self.processes = processes = Processes(worker, programs, limit=self.max_processes)
            # The git that tests compare with.
            git_binary = which("git", os.environ)
            git = Git(
                GitSettings(**{"binary": git_binary, "temp": roots.base.parent, "timeout": 60} | self.git_settings),
                sandbox.zygote,
            )
            self._closers += [processes.aclose, git.aclose]
            confining = sandbox if self.settings.shell_sandbox else None
            shells = ShellRunner(
                sandbox.zygote,
                cwd=str(roots.base),
                host=self.env,
                env=self.env,
                sandbox=confining,
                auto=self.settings.shell_sandbox == "auto",
                **self.shell,
            )
            parts = Services(
                settings=self.settings,
                programs=programs,
                worker=worker,
                ripgrep=ripgrep,
                git=git,
                sandbox=sandbox,
                owners=self.owners,
                toolchains=Toolchains(str(roots.base), self.env | self.toolchain_env, zygote=sandbox.zygote),
                processes=processes,
                shells=shells,
                shell_sessions=ShellSessions(),
                http=self.http,
                reader=self.reader or PageReader(self.http),
                engine=self.engine,
            )
            pipeline = Pipeline(
                expose(self.catalogue, self.gate),
                Policy(roots, self.allowed_commands, self.http.policy),
                self.settings,
                self.rules,
                Budget(self.tokens, tokenizer_for("gpt-4o"), structured=self.rules.structured_output),
                providers(parts),
                unsafe_logger=lambda name, detail: self.overrides.append((name, detail)),
                **self.extra,
            )
            records = self.extra.get("recorder")
            resources = Resources(
                processes,
                self.updates,
                lambda owner: parts.owners.of(owner).session.todos.rendered(),
                roots=roots,
                records=records,
            )
            completions = Completions(processes, roots, git.reads, records)
            self._closers += [resources.aclose, worker.aclose, sandbox.aclose, ripgrep.aclose]
            self._last = [roots.close]
            # A task of its own, as a client has to be left in the task that entered it.
            ready = asyncio.Event()
            self._owner = asyncio.create_task(self._hold(build(pipeline, parts.owners, resources, completions), ready))
            await ready.wait()
            assert self._client
        return self._client

    async def _hold(self, server: Any, ready: asyncio.Event) -> None:
        try:
            async with Client(server, **self.client_options) as self._client:
                ready.set()
                await self._stop.wait()
        finally:
            ready.set()

    async def result(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool the way a client does."""
        result = await (await self.client()).call_tool(name, arguments)
        if not self.undo_ids and result.content and isinstance(last := result.content[-1], TextContent):
            last.text = UNDO_ID.sub("", last.text)
        return result

    async def __call__(self, name: str, **arguments: Any) -> Any:
        """Return the text of an answer, or its error as a dict."""
        result = await self.result(name, arguments)
        if result.is_error:
            payload = json.loads(result.content[0].text)  # type: ignore[union-attr]
            assert payload == result.structured_content
            return payload
        return result.content[0].text  # type: ignore[union-attr]

    async def code(self, name: str, **arguments: Any) -> str:
        """Return the error code of a call that has to fail."""
        answer = await self(name, **arguments)
        assert isinstance(answer, dict), f"{name} answered {answer!r}"
        return str(answer["code"])

    async def aclose(self) -> None:
        """Disconnect."""
        if self._owner:
            self._stop.set()
            await self._owner
        for close in self._closers:
            await close()
        for end in self._last:
            end()


@pytest.fixture
async def call(project: Path) -> AsyncIterator[Box]:
    """Return a server over the project, with every tool open."""
    box = Box(project)
    yield box
    await box.aclose()
