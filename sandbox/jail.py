"""Run a Python callable in a confined child process.

    from toolbox_mcp.sandbox import jail
    jail.run(parse, data, timeout=5, memory_mb=256, fs_read_allow=["/srv/schemas"])

The child has limits on wall clock, CPU and memory, and reaches the files it was given and no
others. Its standard streams lead nowhere; what it has to say is its result. Results are data
from outside: the function shares the channel they come by and can forge them.
"""

import asyncio
import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from .isolate import codec
from .isolate.errors import (
    Error,
    FilesystemError,
    MemoryError,
    SandboxError,
    TimeoutError,
    UnsupportedPlatformError,
    words_of,
)
from .isolate.interpreter import prefixes
from .isolate.job import Job, Zygote, from_here, from_zygote
from .isolate.request import SYSTEM, Order, Walls, existing, import_roots, importable_name

__all__ = [
    "Error",
    "FilesystemError",
    "MemoryError",
    "SandboxError",
    "Support",
    "TimeoutError",
    "UnsupportedPlatformError",
    "configure",
    "run",
    "run_async",
    "supported",
]

T = TypeVar("T")
Mode = Literal["auto", "zygote", "fork"]
OnUnsupported = Literal["warn", "raise", "ignore"]
StrPath = str | os.PathLike[str]

_MOST_MB = 1 << 40
"""MiB; what is above it does not fit into a limit of the kernel together with what a process begins with."""


@dataclass(frozen=True)
class Support:
    """What this system can do. platform is sys.platform; reasons say what is missing, in sentences."""

    platform: str
    fork: bool
    landlock_abi: int
    seatbelt: bool
    reasons: tuple[str, ...]

    @property
    def walls(self) -> Walls:
        """What confines files here, "" if nothing does."""
        return "landlock" if self.landlock_abi else "seatbelt" if self.seatbelt else ""


@dataclass(frozen=True)
class _Defaults:
    timeout: float = 30
    memory_mb: int = 512
    fs_allow: tuple[StrPath, ...] = ()
    on_unsupported: OnUnsupported = "warn"


@dataclass
class _Shared:
    """What configure() sets and what calls share: the one state of this library, in one place.

    A library of plain functions has nobody to hand it a configuration or a running zygote.
    """

    defaults: _Defaults = field(default_factory=_Defaults)
    support: Support | None = None
    zygote: Zygote = field(default_factory=Zygote)


_shared = _Shared()


def run(
    fn: Callable[..., T],
    *args: Any,
    timeout: float | None = None,
    cpu_timeout: float | None = None,
    memory_mb: int | None = None,
    fs_allow: Sequence[StrPath] | None = None,
    fs_read_allow: Sequence[StrPath] | None = None,
    mode: Mode = "auto",
    max_result: int = 64 << 20,
    on_unsupported: OnUnsupported | None = None,
) -> T:
    """Return fn(*args), computed in a confined child process.

    timeout: seconds of wall clock from the child's start; cpu_timeout: CPU seconds, rounded up to
    whole ones, by default the timeout; memory_mb: MiB of address space beyond what the child
    starts with. fs_allow: files and folders it may read and change; fs_read_allow: those it may
    read. The interpreter, the folder fn is imported from and the system's libraries are always
    readable; without any list nothing else is reachable.

    mode zygote: fn is importable by name, and it and its arguments go to a clean process (empty
    environment, same working directory). fork: a copy of this process, with closures and live
    state but no open files; it must have one thread. auto: zygote where it is possible, else fork.
    max_result: bytes. on_unsupported: what to do where this system cannot confine: warn on
    stderr and go on without, raise, or ignore. None is what configure() set.

    Raises an Error; FileNotFoundError for a listed path that is missing; RuntimeError for fork
    mode in a process with several threads; TypeError and ValueError for unusable arguments.
    """
    plan = _Plan(timeout, cpu_timeout, memory_mb, fs_allow, fs_read_allow, mode, max_result, on_unsupported)
    started = plan.start(fn, args)
    if started is None:
        return _unconfined(fn, args)
    job, arguments = started
    return job.run(arguments, max_result)  # type: ignore[no-any-return]


async def run_async(
    fn: Callable[..., T],
    *args: Any,
    timeout: float | None = None,
    cpu_timeout: float | None = None,
    memory_mb: int | None = None,
    fs_allow: Sequence[StrPath] | None = None,
    fs_read_allow: Sequence[StrPath] | None = None,
    mode: Mode = "auto",
    max_result: int = 64 << 20,
    on_unsupported: OnUnsupported | None = None,
) -> T:
    """Do what run does without blocking the event loop. Cancelling kills the child."""
    plan = _Plan(timeout, cpu_timeout, memory_mb, fs_allow, fs_read_allow, mode, max_result, on_unsupported)
    started = plan.start(fn, args)
    if started is None:
        return await asyncio.to_thread(_unconfined, fn, args)
    job, arguments = started
    return await job.run_async(arguments, max_result)  # type: ignore[no-any-return]


def configure(
    *,
    default_timeout: float = 30,
    default_memory_mb: int = 512,
    default_fs_allow: Sequence[StrPath] = (),
    on_unsupported: OnUnsupported = "warn",
) -> None:
    """Set what None stands for in later calls of run. What is not named gets its built-in default.

    Units as in run; default_fs_allow is used where fs_allow is None.
    """
    _positive("default_timeout", default_timeout, threading.TIMEOUT_MAX)
    _memory("default_memory_mb", default_memory_mb)
    _one_of("on_unsupported", on_unsupported, OnUnsupported)
    _list("default_fs_allow", default_fs_allow)
    _shared.defaults = _Defaults(default_timeout, default_memory_mb, tuple(default_fs_allow), on_unsupported)


def supported() -> Support:
    """Return the features of this system."""
    if _shared.support is None:
        _shared.support = _probe()
    return _shared.support


@dataclass(frozen=True)
class _Plan:
    """What one call asks for, in the order of run's parameters."""

    timeout: float | None
    cpu_timeout: float | None
    memory_mb: int | None
    fs_allow: Sequence[StrPath] | None
    fs_read_allow: Sequence[StrPath] | None
    mode: Mode
    max_result: int
    on_unsupported: OnUnsupported | None

    def start(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Job, list[bytes]] | None:
        """Start the call; None where it is to run unconfined. With it the arguments that are still to be sent."""
        order = self._order(fn)
        support = supported()
        if not support.walls or not support.fork:
            self._complain(support)
        if not support.fork:
            return None
        if self.mode == "fork":
            return from_here(order, fn, args), []
        name = importable_name(fn)
        if name is None:
            if self.mode == "zygote":
                raise ValueError(f"{fn!r} cannot be imported by name, which zygote mode needs")
            return from_here(order, fn, args), []
        try:
            arguments = codec.encode(args)
        except (TypeError, ValueError):
            if self.mode == "zygote":
                raise
            return from_here(order, fn, args), []
        return from_zygote(_shared.zygote, order, name), arguments

    def _order(self, fn: Callable[..., Any]) -> Order:
        defaults = _shared.defaults
        timeout = defaults.timeout if self.timeout is None else self.timeout
        cpu = timeout if self.cpu_timeout is None else self.cpu_timeout
        memory_mb = defaults.memory_mb if self.memory_mb is None else self.memory_mb
        _positive("timeout", timeout, threading.TIMEOUT_MAX)
        _positive("cpu_timeout", cpu, threading.TIMEOUT_MAX)
        _memory("memory_mb", memory_mb)
        _positive("max_result", self.max_result)
        _list("fs_allow", self.fs_allow)
        _list("fs_read_allow", self.fs_read_allow)
        _one_of("mode", self.mode, Mode)
        _one_of("on_unsupported", self.on_unsupported or defaults.on_unsupported, OnUnsupported)
        write = existing(tuple(defaults.fs_allow if self.fs_allow is None else self.fs_allow))
        read = existing(tuple(self.fs_read_allow or ()))
        return Order(
            timeout=timeout,
            cpu_seconds=math.ceil(cpu),
            memory_mb=int(memory_mb),
            walls=supported().walls,
            read=[*SYSTEM, *prefixes(), *import_roots(fn), *read],
            write=write,
            cwd=_here(),
            fork=False,
        )

    def _complain(self, support: Support) -> None:
        answer = self.on_unsupported or _shared.defaults.on_unsupported
        text = "; ".join(support.reasons)
        if answer == "raise":
            raise UnsupportedPlatformError(text)
        if answer == "warn":
            sys.stderr.write(f"toolbox_mcp.sandbox.jail: {text}\n")


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


def _unconfined(fn: Callable[..., T], args: tuple[Any, ...]) -> T:
    try:
        return fn(*args)
    except Exception as e:
        words = words_of(e)
        raise SandboxError(f"{type(e).__name__}: {words}", type(e).__name__, words) from e


def _probe() -> Support:
    platform = sys.platform
    if not hasattr(os, "fork"):
        return Support(platform, False, 0, False, (f"{platform} has no fork: the function runs unconfined",))
    if platform == "darwin":
        return Support(platform, True, 0, True, ())
    if platform != "linux":
        return Support(platform, True, 0, False, (f"{platform} has no file confinement: only limits are in force",))
    from .linux.landlock import abi

    level = abi()
    if not level:
        return Support(platform, True, 0, False, ("this kernel has no Landlock: only limits are in force",))
    missing = {
        2: "Landlock ABI 1 forbids renaming between folders",
        3: "Landlock ABI below 3 does not confine truncation",
        6: "Landlock ABI below 6 does not confine signals",
    }
    return Support(platform, True, level, False, tuple(text for needed, text in missing.items() if level < needed))


def _positive(name: str, value: float, most: float = math.inf) -> None:
    if not value > 0 or value == math.inf:
        raise ValueError(f"{name} must be a positive number, not {value!r}")
    if value > most:
        raise ValueError(f"{name} must be at most {most:g}, not {value!r}")


def _memory(name: str, value: int) -> None:
    _positive(name, value, _MOST_MB)
    if value != int(value):
        raise ValueError(f"{name} must be a whole number, not {value!r}")


def _list(name: str, paths: object) -> None:
    # A string is a sequence of strings, too: its first letter is often the root.
    if isinstance(paths, str | bytes | os.PathLike):
        raise TypeError(f"{name} has to be a list of paths, not the path {paths!r}")


def _one_of(name: str, value: str, choices: Any) -> None:
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}, not {value!r}")
