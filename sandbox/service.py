"""The sandbox as tools see it: run a snippet of a language, or a program, in the back end that qualified here."""

import asyncio
import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from anyio import CancelScope, to_thread

from ..safety.errors import Code, ToolError
from ..safety.path_jail.protected_tree import ProtectedTree
from ..safety.path_jail.roots import Roots
from .backends.base import Backend
from .backends.bubblewrap import Bubblewrap
from .backends.choose import candidates, choose
from .backends.container import Container
from .backends.local import NOBODY
from .backends.native import Native
from .backends.none import NoSandbox
from .backends.probes import Verdicts, qualify
from .backends.seatbelt import Seatbelt
from .environment import which
from .languages import BINARY, LANGUAGES, Language, Toolchain, covered, find, narrow
from .linux.confine import SYSTEM
from .linux.privileges import can_become
from .linux.zygote_client import Zygote
from .pool import Pool, Startable
from .process.capture import Capture
from .process.runner import Finished
from .process.spawn import arguments_too_long
from .spec import ENVIRONMENT, MIB, FsPolicy, Job, Limits, Probe, Result

_LONGEST_ARGUMENT, _ARGUMENTS = 128 * 1024, 3 << 19
"""Bytes of one argument, which is Linux's limit, and of all: what Linux takes (execve(2): a quarter of the usual stack),
less what the environment and a back end's own arguments take of it."""

CONFINED = "it mounts, which confine forbids; auto, landlock and docker work under confine"
"""Why a back end with a mount namespace is none for a server that confines itself (sandbox/confine.py)."""

QUALIFYING = 60.0
"""Seconds that finding a language and qualifying a back end may take at first use; a guess, usually under a second."""

_LARGEST_BINARY = 64 * MIB
_MAX_LINES = 10
_NOT_FOUND = 127
"""What a shell exits with for a program that is not there."""


@dataclass(frozen=True)
class SandboxSettings:
    """The operator's settings for sandboxed programs.

    memory: bytes. timeout: seconds, wall and CPU each. images: container image by language. env: the environment
    that interpreters are looked up in. home: the operator's home. state: a folder of the server's own. temp: where
    scratch folders are made, which a program may enter as another user.
    engine_env: what docker and podman find in their environment beside env. engine_options, run_options: more
    arguments for them, before and after `run`. oci_runtime: what they run containers with. packages: folders that programs in Python may read and import from. confined: this process confines itself, so that nobody can mount.
    """

    state: Path
    temp: Path
    home: str
    env: Mapping[str, str]
    runtime: str = "auto"
    packages: tuple[str, ...] = ()
    bwrap_extra: tuple[str, ...] = ()
    seatbelt_profile: str | None = None
    network: bool = False
    memory: int = 256 * MIB
    cpus: float = 1.0
    pids: int = 128
    timeout: float = 30
    images: Mapping[str, str] = field(default_factory=dict)
    engine_env: Mapping[str, str] = field(default_factory=dict)
    engine_options: tuple[str, ...] = ()
    run_options: tuple[str, ...] = ()
    oci_runtime: str | None = None
    confined: bool = False


READ_ONLY = "the project can only be read: this server runs as root, and programs in its sandbox as nobody"
"""Said of a program that may write a folder which its user may not."""


def _is_read_only(folder: str) -> bool:
    """Return True where sandboxed programs have another user than the server, and that may not write a folder."""
    if not can_become(NOBODY):
        return False
    status = os.stat(folder)
    return status.st_uid != NOBODY and not status.st_mode & stat.S_IWOTH


class Sandbox:
    """Runs programs confined. Chooses a back end at first use; close it with aclose(). zygote: starts every program, confined or not."""

    def __init__(
        self, settings: SandboxSettings, languages: Mapping[str, Language] = LANGUAGES, *, roots: Roots | None = None
    ) -> None:
        """Start nothing yet. languages: what run_code() runs, by name. roots: know what run_on() protects in its folder."""
        self._roots = roots
        self._settings = settings
        self._languages = languages
        self.zygote = Zygote()
        self._backends = self._make()
        self._verdicts = Verdicts(settings.state / "sandbox-verdicts.json", _code_stamp())
        self._chosen: dict[str, tuple[Backend, Probe]] = {}
        self._toolchains: dict[tuple[str, bool], Toolchain] = {}
        self._pools: dict[tuple[str, str], Pool] = {}
        self._choosing = asyncio.Lock()

    async def run_code(self, name: str, code: str) -> Result:
        """Run a program of a language, given as text. Raises ToolError.

        Codes: empty_code, unavailable (language), sandbox_unavailable, unsupported_language.
        """
        language = self._languages.get(name)
        if language is None:
            raise ToolError(Code.UNSUPPORTED_LANGUAGE, f"{name} is not a language that the sandbox runs")
        if not code.strip():
            raise ToolError(Code.EMPTY_CODE, "the program is blank")
        backend = await self.backend(language)
        job = await self._job(language, backend)
        source = code.encode("utf-8", "surrogatepass")
        if not language.compiler:
            # The zygote's interpreter is this server's; where it is also the language's, code can run in a fork of it.
            job = replace(job, in_process=_is_this_interpreter(job.argv[0]))
            if name == "python" and self._settings.packages and not isinstance(backend, Container):
                job = _with_packages(job, self._settings.packages, self._settings.home)
            if language.waiting and isinstance(backend, Startable):
                return await self._pool(language, backend, job).run(source)
            return await backend.run(replace(job, stdin=source))
        built = await backend.run(await self._compile_job(language, backend, source))
        if isinstance(backend, Container) and built.finished.exit_code == _NOT_FOUND:
            raise ToolError(Code.UNAVAILABLE, f"{language.programs[0]} is not in the image {job.image}")
        if built.finished.exit_code or not built.finished.stdout.raw:
            nothing = replace(built.finished.stdout, text="", bytes=0, truncated=False, raw=b"")
            return replace(built, finished=replace(built.finished, stdout=nothing), files=())
        ran = await backend.run(replace(job, stdin=built.finished.stdout.raw))
        ran = replace(ran, files=tuple(file for file in ran.files if file.name != BINARY))
        warnings = built.finished.stderr
        if not warnings.text:
            return ran
        joined = replace(
            ran.finished.stderr,
            text=warnings.text + ran.finished.stderr.text,
            bytes=warnings.bytes + ran.finished.stderr.bytes,
            truncated=warnings.truncated or ran.finished.stderr.truncated,
            raw=warnings.raw + ran.finished.stderr.raw,
        )
        return replace(ran, finished=replace(ran.finished, stderr=joined))

    async def run(self, job: Job) -> Result:
        """Run a program under the operator's limits, where the job's are wider."""
        return await (await self.backend(LANGUAGES["python"])).run(job)

    async def run_on(
        self,
        folder: str,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout: float,
        capture: Capture,
        stdin: bytes = b"",
    ) -> Result:
        """Run a program of this machine that may read and write one folder of it, at its own place.

        Protected places are only read; what comes to such a place meanwhile has another name in the end, and stderr
        says so. cwd lies in folder. env comes above the sandbox's own environment. timeout: seconds of wall time and of CPU.
        """
        _insist_on_size(argv)
        backend = await self.backend(LANGUAGES["python"])
        tree = await to_thread.run_sync(ProtectedTree, self._roots, folder) if self._roots else None
        job = Job(
            argv=argv,
            env={**ENVIRONMENT, **env},
            stdin=stdin,
            files=FsPolicy(write=(folder,), protected=tree.existing if tree else ()),
            limits=replace(self._limits({}), wall=timeout, cpu=timeout),
            cwd=cwd,
            network=self._settings.network,
            image=self._settings.images.get("python", "") if isinstance(backend, Container) else "",
            capture=capture,
        )
        renamed: list[str] = []
        try:
            result = await backend.run(job)
        finally:
            if tree:
                with CancelScope(shield=True):
                    renamed = await to_thread.run_sync(tree.restore)
        if await to_thread.run_sync(_is_read_only, folder):
            result = replace(result, reasons=(*result.reasons, READ_ONLY))
        return _with_lines(result, [*renamed, *_lacks(result.finished, argv[-1], self._settings.network)])

    async def backend(self, language: Language) -> Backend:
        """Return the back end in use. A container qualifies for each image by itself."""
        async with self._choosing:
            image = self._settings.images.get(language.name, "")
            # What is no container has no image, and serves every language.
            key = image if image in self._chosen else ""
            if key not in self._chosen or (key != image and isinstance(self._chosen[key][0], Container)):
                names = candidates(self._settings.runtime, sys.platform)
                chosen = await choose(
                    self._settings.runtime, names, self._backends, lambda backend: self._qualify(backend, language)
                )
                key = image if isinstance(chosen[0], Container) else ""
                self._chosen[key] = chosen
            return self._chosen[key][0]

    async def works(self, folder: str) -> bool:
        """Return True where programs can be confined and may still write a folder; the first time that is tried out."""
        confines = not isinstance(await self.backend(LANGUAGES["python"]), NoSandbox)
        return confines and not await to_thread.run_sync(_is_read_only, folder)

    async def doctor(self) -> dict[str, Probe]:
        """Return the verdict on each back end, by attacking it afresh. Fetches no images."""
        found: dict[str, Probe] = {}
        for name, backend in self._backends.items():
            image = self._settings.images.get("python", "")
            if isinstance(backend, Container) and (works := await backend.probe()).ok and not await backend.has(image):
                found[name] = replace(works, ok=False, reasons=(f"{image} is not here; it is fetched at first use",))
            else:
                found[name] = await self._attack(backend, LANGUAGES["python"])
        return found

    @property
    def waiting(self) -> tuple[int, ...]:
        """The pids of the supervisors of programs that wait for later calls."""
        return tuple(pid for pool in self._pools.values() for pid in pool.waiting)

    async def warmed(self) -> None:
        """Wait until the programs that calls have made it keep started are there."""
        for pool in self._pools.values():
            await pool.filled()

    async def aclose(self) -> None:
        """End every program and helper."""
        for pool in self._pools.values():
            await pool.aclose()
        for backend in self._backends.values():
            await backend.aclose()
        await self.zygote.aclose()

    def _pool(self, language: Language, backend: Startable, job: Job) -> Pool:
        key = (language.name, backend.name)
        if key not in self._pools:
            self._pools[key] = Pool(backend, job, language.waiting)
        return self._pools[key]

    def _make(self) -> dict[str, Backend]:
        settings = self._settings
        made: dict[str, Backend] = {}
        if sys.platform == "linux":
            if settings.confined:
                made |= {name: NoSandbox(name, CONFINED) for name in ("bubblewrap", "native")}
            else:
                made["bubblewrap"] = Bubblewrap(self.zygote, extra=settings.bwrap_extra)
                made["native"] = Native(self.zygote, namespaces=True, folder=settings.temp)
            made["landlock"] = Native(self.zygote, namespaces=False, folder=settings.temp)
        if sys.platform == "darwin":
            made["seatbelt"] = Seatbelt(self.zygote, settings.temp, profile=settings.seatbelt_profile)
        by = ("--runtime", settings.oci_runtime) if settings.oci_runtime else ()
        # podman takes it before its command, docker behind.
        for engine, before, behind in (("docker", (), by), ("podman", by, ())):
            if which(engine, {"PATH": "", **settings.env}):
                made[engine] = Container(
                    engine,
                    self.zygote,
                    env={**settings.env, **settings.engine_env},
                    state=settings.state,
                    options=(*settings.engine_options, *before),
                    run_options=(*settings.run_options, *behind),
                )
        return made

    async def _qualify(self, backend: Backend, language: Language) -> Probe:
        settings = self._settings
        image = settings.images.get(language.name, "") if isinstance(backend, Container) else ""
        wrapper = _stamp("/usr/bin/bwrap") if backend.name == "bubblewrap" else ""
        if isinstance(backend, Container):
            wrapper = " ".join((*settings.engine_options, *settings.run_options, settings.oci_runtime or ""))
        inside = "|confined" if settings.confined else ""
        key = f"{backend.name}|{image}|{wrapper}|{settings.network}|{' '.join(settings.bwrap_extra)}{inside}"
        return await self._verdicts.of(key, lambda: self._attack(backend, language))

    async def _attack(self, backend: Backend, language: Language) -> Probe:
        if isinstance(backend, Container):
            image = self._settings.images.get(language.name, "")
            if not (works := await backend.probe()).ok:
                return works
            try:
                if not await backend.has(image):
                    await backend.fetch(image)
            except ToolError as failure:
                return Probe(False, (failure.error,))
            python = Job(argv=(), image=image)
            shell = replace(python, argv=("/bin/sh",))
            return await qualify(backend, python, self._settings.home, shell=shell)
        try:
            job = await self._job(LANGUAGES["python"], backend)
        except ToolError as failure:
            return Probe(False, (f"no Python to try it with: {failure.error}",))
        return await qualify(backend, job, self._settings.home)

    async def _job(self, language: Language, backend: Backend) -> Job:
        limits = self._limits(language.floors)
        limits = replace(limits, data=limits.data + language.reserves)
        image = self._settings.images.get(language.name, "")
        if isinstance(backend, Container):
            return Job(argv=language.container_argv, limits=limits, network=self._settings.network, image=image)
        tools = await self._toolchain(language, backend)
        argv = tools.fill(language.argv)
        return Job(argv=argv, limits=limits, network=self._settings.network, files=tools.files)

    async def _compile_job(self, language: Language, backend: Backend, source: bytes) -> Job:
        job = await self._job(language, backend)
        if isinstance(backend, Container):
            argv: Sequence[str] = language.container_compiler
        else:
            argv = (await self._toolchain(language, backend)).fill(language.compiler)
        limits = self._limits(language.compile_floors)
        capture = Capture(head=_LARGEST_BINARY, tail=Capture.tail)
        return replace(job, argv=argv, stdin=source, limits=limits, capture=capture)

    async def _toolchain(self, language: Language, backend: Backend) -> Toolchain:
        # Beside the others, a program of nobody sees the folders of root as nobody does.
        as_nobody = backend.name == "landlock" and can_become(NOBODY)
        key = (language.name, as_nobody)
        if key not in self._toolchains:
            reachable_by = NOBODY if as_nobody else None
            settings = self._settings
            found = await find(self.zygote, language, settings.env, settings.home, reachable_by=reachable_by)
            self._toolchains[key] = found
        return self._toolchains[key]

    def _limits(self, floors: Mapping[str, int]) -> Limits:
        settings = self._settings
        return Limits(
            wall=settings.timeout,
            cpu=settings.timeout,
            memory=settings.memory,
            data=settings.memory,
            processes=settings.pids,
            cpus=settings.cpus,
        ).at_least(**floors)


_NETWORK = re.compile(
    r"Could not resolve|Name or service not known|[Nn]ame resolution|Network is unreachable|EAI_AGAIN|ENETUNREACH|"
    r"Address family not supported"
)
_ASKS_NETWORK = re.compile(
    r"\b(?:curl|wget|ssh|scp|rsync|apt-get|npm (?:i|ci|install)|pip3? install|git (?:clone|fetch|pull|push))\b"
)
_LAST = 2000
"""Characters at the end of stderr that are looked at."""


def _lacks(done: Finished, line: str, network: bool) -> Iterator[str]:
    """Yield what a sandbox on the project lacks that made a program fail, by what it said and was asked."""
    said = done.stderr.text[-_LAST:]
    if not network and (_NETWORK.search(said) or (done.exit_code and _ASKS_NETWORK.search(line))):
        yield "the sandbox has no network"
    if "Read-only file system" in said and ".git" in said:
        yield "in the sandbox .git is only read: the git tools and bash change it"


def _with_lines(result: Result, lines: Sequence[str]) -> Result:
    """Return a result whose stderr ends with lines of this server."""
    if not lines:
        return result
    shown = [*lines[:_MAX_LINES], *([f"... and {len(lines) - _MAX_LINES} more"] if len(lines) > _MAX_LINES else [])]
    text = "".join(f"[{line}]\n" for line in shown)
    stderr = result.finished.stderr
    if stderr.text and not stderr.text.endswith("\n"):
        text = f"\n{text}"
    raw = os.fsencode(text)
    stderr = replace(stderr, text=stderr.text + text, bytes=stderr.bytes + len(raw), raw=stderr.raw + raw)
    return replace(result, finished=replace(result.finished, stderr=stderr))


def _with_packages(job: Job, packages: Sequence[str], home: str) -> Job:
    """Return a job of Python that imports from more folders. A fork of this server's interpreter would not look there."""
    read = narrow((*job.files.read, *packages), home)
    shown = [path for path in map(os.path.realpath, packages) if covered(path, (*read, *SYSTEM))]
    env = {**job.env, "PYTHONPATH": os.pathsep.join(shown)} if shown else job.env
    return replace(job, in_process=False, files=replace(job.files, read=read), env=env)


def _is_this_interpreter(executable: str) -> bool:
    """Return True if a path is this process's interpreter, by whichever name its folder has for it."""
    here, there = sys.executable, executable
    same_folder = os.path.dirname(here) == os.path.dirname(there)
    return same_folder and os.path.realpath(here) == os.path.realpath(there)


def _code_stamp() -> str:
    """Tell this version of the sandbox from others, also in a checkout."""
    here = Path(__file__).parent
    stamps = sorted((file.name, file.stat().st_mtime_ns) for file in (*here.glob("*.py"), *here.glob("linux/*.py")))
    return hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]


def _stamp(path: str) -> str:
    try:
        seen = os.stat(path)
    except OSError:
        return path
    return f"{path} {seen.st_size} {seen.st_mtime_ns}"


def _insist_on_size(argv: Sequence[str]) -> None:
    """ToolError(too_large) for arguments that no program of this system can be started with."""
    sizes = [len(os.fsencode(word)) + 1 for word in argv]
    if max(sizes) > _LONGEST_ARGUMENT or sum(sizes) + 8 * len(sizes) > _ARGUMENTS:
        raise arguments_too_long(argv[0])
