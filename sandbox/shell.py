"""Shell commands: which shell runs them, in which environment, and what a session keeps between them."""

import asyncio
import copy
import logging
import os
import pwd
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from ..safety.errors import Code, ToolError
from ..safety.path_jail.roots import JailedPath
from .environment import from_login, inherit, layered, which
from .linux.zygote_client import Zygote
from .process.capture import Capture
from .process.runner import Finished, run
from .service import Sandbox

log = logging.getLogger(__name__)

SHELLS = ("bash", "zsh", "sh", "dash", "ksh", "fish")
"""In the order in which they are looked for."""

POWERSHELLS = ("pwsh", "powershell")

TERM_SECONDS = 0.5
"""Seconds between SIGTERM and SIGKILL for a command that takes too long."""

LOGIN_SECONDS = 10.0
"""Seconds that the scripts of a login shell may take; a guess: most take less than one."""

SESSIONS, IDLE = 256, 30 * 60.0
"""Sessions kept, and seconds after which one that nobody uses is dropped."""


@dataclass(frozen=True)
class Shell:
    """A shell that is installed: its name, which says how it reads a command, and where it is."""

    name: str
    path: str

    def argv(self, command: str) -> list[str]:
        """Return the runner of a command in a shell of its own."""
        if self.name in POWERSHELLS:
            return [self.path, "-NoLogo", "-NonInteractive", "-NoProfile", "-Command", command]
        return [self.path, "-c", command]


@dataclass(frozen=True)
class Ran:
    """How a command ended. reasons: what the sandbox it ran in does not contain."""

    finished: Finished
    reasons: tuple[str, ...] = ()


class ShellRunner:
    """Runs shell commands of the operator's machine."""

    def __init__(
        self,
        zygote: Zygote,
        *,
        cwd: str,
        host: Mapping[str, str],
        env: Mapping[str, str],
        base_env: Mapping[str, str] | Literal["login"] = MappingProxyType({}),
        default: str = "auto",
        output_bytes: int = 4_194_304,
        sandbox: Sandbox | None = None,
        auto: bool = False,
    ) -> None:
        """Start nothing yet.

        cwd: the base, where commands run unless told otherwise. host: the server's own environment, which says where shells are and which one is the user's. env: what
        commands get of it. base_env: what lies above env, or login for what a login shell sets. default: the name
        of the shell for calls that name none. output_bytes: how much of each stream is kept, three quarters of it from the start. sandbox:
        where commands run, with the base writable and without what env holds of the host. auto: only where that works.
        """
        self._auto = auto
        self._zygote = zygote
        self._cwd = cwd
        self._host = host
        self._env = env
        self._base_env = base_env
        self._default = default
        self._capture = Capture(head=output_bytes - output_bytes // 4, tail=output_bytes // 4)
        self._sandbox = sandbox
        self._login: dict[str, str] | None = None
        self._asking = asyncio.Lock()

    @property
    def is_confined(self) -> bool:
        """Return True where commands run in a sandbox, which is then their boundary."""
        return self._sandbox is not None

    async def settled(self) -> "ShellRunner":
        """Return the same runner, in a sandbox or not, as was decided for this machine."""
        if self._sandbox is None or not self._auto or await self._sandbox.works(self._cwd):
            return self
        made = copy.copy(self)
        made._sandbox = None
        return made

    def confined(self, sandbox: Sandbox) -> "ShellRunner":
        """Return the same runner in a sandbox."""
        if self._sandbox:
            return self
        made = copy.copy(self)
        made._sandbox = sandbox
        return made

    def find(self, wanted: str = "auto") -> Shell:
        """Return a shell by name; auto is the default, which may be the user's own or the first that is installed.

        ToolError(unavailable) where it is not installed.
        """
        name = self._default if wanted == "auto" else wanted
        own = [_shell(path) for path in self._own()] if name == "auto" else []
        names = (name,) if name != "auto" else SHELLS
        for shell in (*own, *map(self._named, names)):
            if shell:
                return shell
        raise ToolError(
            Code.UNAVAILABLE,
            "no shell is installed" if name == "auto" else f"{name} is not installed",
            "use shell=auto",
        )

    async def environment(self, *layers: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a command: the base, and layers (of the session, of the call) above it."""
        if self._sandbox:
            # What finds programs on the host finds nothing in a sandbox.
            return layered(layers)
        base = await self._logged_in() if isinstance(self._base_env, str) else self._base_env
        return layered((self._env, base, *layers))

    async def run(
        self, shell: Shell, command: str, *, cwd: JailedPath | None, env: Mapping[str, str], timeout: float
    ) -> Ran:
        """Run one command, which has been checked, to its end. cwd: None for the base. timeout in seconds."""
        return await self.run_argv(shell.argv(command), cwd=cwd, env=env, timeout=timeout)

    async def run_argv(
        self, argv: Sequence[str], *, cwd: JailedPath | None, env: Mapping[str, str], timeout: float, stdin: bytes = b""
    ) -> Ran:
        """Run a program as a shell command is run: SIGTERM comes before SIGKILL."""
        descriptor = cwd.open_folder() if cwd else None
        try:
            if self._sandbox:
                folder = str(cwd.target().path) if cwd else self._cwd
                done = await self._sandbox.run_on(
                    self._cwd, argv, cwd=folder, env=env, timeout=timeout, capture=self._capture, stdin=stdin
                )
                return Ran(done.finished, done.reasons)
            where = self._cwd if descriptor is None else descriptor
            finished = await run(
                self._zygote,
                argv,
                cwd=where,
                env=env,
                timeout=timeout,
                stdin=stdin,
                capture=self._capture,
                grace=TERM_SECONDS,
            )
            return Ran(finished)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def which(self, program: str, env: Mapping[str, str]) -> str | None:
        """Return the path of a program in this environment."""
        return program if os.path.isabs(program) and os.access(program, os.X_OK) else which(program, env)

    def _named(self, name: str) -> Shell | None:
        path = self.which(name, self._env) or self.which(name, self._host)
        return Shell(name, path) if path else None

    def _own(self) -> list[str]:
        """Return the paths of the user's shell, and of that of the account."""
        paths = [self._host.get("SHELL", "")]
        try:
            paths.append(pwd.getpwuid(os.getuid()).pw_shell)
        except KeyError:
            log.debug("the user has no account")
        return paths

    async def _logged_in(self) -> dict[str, str]:
        async with self._asking:
            if self._login is None:
                self._login = await self._ask_login_shell()
        return self._login

    async def _ask_login_shell(self) -> dict[str, str]:
        try:
            shell = self.find("auto")
            done = await run(
                self._zygote,
                [shell.path, "-l", "-c", "env -0"],
                cwd=self._host.get("HOME") or "/",
                env=inherit(self._host),
                timeout=LOGIN_SECONDS,
                capture=Capture(head=0, tail=1 << 20),
                clean=lambda text: text,
            )
        except ToolError as failure:
            log.warning("no login environment: %s", failure)
            return {}
        if done.exit_code:
            log.warning("no login environment: the shell ended with %s", done.exit_code)
        return from_login(done.stdout.raw)


def _shell(path: str) -> Shell | None:
    name = os.path.basename(path)
    known = name in SHELLS or name in POWERSHELLS
    return Shell(name, path) if known and os.access(path, os.X_OK) and os.path.isabs(path) else None


@dataclass
class ShellSession:
    """What commands of one session share."""

    id: str
    work_dir: JailedPath | None = None
    env: dict[str, str] = field(default_factory=dict)


class ShellSessions:
    """The sessions of all owners; the least recently used one goes first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without any. clock counts seconds."""
        self._clock = clock
        self._sessions: OrderedDict[tuple[str, str], tuple[float, ShellSession]] = OrderedDict()

    def of(self, owner: str) -> "OwnedSessions":
        """Return the sessions as one owner sees them."""
        return OwnedSessions(self, owner)

    def find(self, owner: str, id_: str) -> ShellSession:
        """Return a session of an owner; ToolError(not_found) for any other id."""
        self._expire()
        kept = self._sessions.get((owner, id_))
        if kept is None:
            raise ToolError(Code.NOT_FOUND, "there is no such shell session", "leave session out to begin one")
        return kept[1]

    def keep(self, owner: str, session: ShellSession) -> None:
        """Keep a session, used just now."""
        key = (owner, session.id)
        self._sessions[key] = (self._clock(), session)
        self._sessions.move_to_end(key)
        while len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)
        self._expire()

    def end_owner(self, owner: str) -> None:
        """Forget the sessions of an owner."""
        for key in [key for key in self._sessions if key[0] == owner]:
            del self._sessions[key]

    def _expire(self) -> None:
        while self._sessions:
            used, _ = next(iter(self._sessions.values()))
            if self._clock() - used <= IDLE:
                return
            self._sessions.popitem(last=False)


class OwnedSessions:
    """The sessions of one owner."""

    def __init__(self, all_: ShellSessions, owner: str) -> None:
        """Look at all sessions through the eyes of owner."""
        self._all = all_
        self._owner = owner

    def open(self, id_: str | None) -> ShellSession:
        """Return the session with this id, or without one a session that is not kept yet. ToolError(not_found)."""
        return self._all.find(self._owner, id_) if id_ else ShellSession(f"sess_{secrets.token_hex(16)}")

    def keep(self, session: ShellSession) -> None:
        """Keep a session, used just now."""
        self._all.keep(self._owner, session)
