"""git, run so that no repository decides what it does.

Every command runs on a folder of ours in place of the repository's own (`GIT_DIR`): its configuration is written here, and objects,
refs, logs and index are those of the repository. So no configuration, hook, driver, filter, alias, include or promisor of the repository is ever
read, and a key that nobody here has heard of is harmless. Of the configuration, what only describes data is taken over by
name and by value. The environment is replaced.
"""

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event

import anyio
from anyio import to_thread

from ..safety.errors import Code, ToolError, not_installed
from ..safety.git_repo import Repository, Times, find, special_file
from ..safety.os_errors import refusal
from ..safety.path_jail.roots import JailedPath
from ..safety.text import clean, visible_name
from .git_shadow import MAX_CONFIG, ShadowFolder, read_regular
from .linux.zygote_client import Zygote
from .process.capture import Capture
from .process.runner import Finished, Limits, run

MAX_OUTPUT = 32 * 2**20
"""Bytes that a command may write (TOOLS.md §4.5)."""
MEMORY = 2 * 2**30
"""Bytes that git may hold; a guess far above what a command on a large repository takes."""
LOOK_AFTER = 1.0
"""Seconds after which a command may be waiting for a FIFO; a guess at what few commands take."""
GRACE = 1.0
"""Seconds in which a command that is ended takes its lock files away."""
_WAITS = "special file"
MAX_SHADOWS = 32
"""Repositories whose folder is kept for the next call."""

READS = frozenset(
    {"status", "diff", "log", "show", "blame", "grep", "cat-file", "for-each-ref", "rev-parse", "ls-files"}
)
WRITES = frozenset({"update-index", "commit", "checkout", "check-ref-format", "check-attr"})

_BOOL = re.compile(r"true|false|yes|no|on|off|0|1|", re.IGNORECASE)
_NAME = r"[^\x00-\x1f\x7f]{1,200}"
_TAKEN: Sequence[tuple[re.Pattern[str], re.Pattern[str]]] = (
    (re.compile(r"core\.(?:filemode|symlinks|ignorecase|precomposeunicode|sparsecheckout|sparsecheckoutcone)"), _BOOL),
    (re.compile(r"core\.autocrlf"), re.compile(f"{_BOOL.pattern}|input", re.IGNORECASE)),
    (re.compile(r"core\.eol"), re.compile(r"lf|crlf|native", re.IGNORECASE)),
    (re.compile(r"core\.abbrev"), re.compile(r"auto|no|[4-9]|[12][0-9]|3[0-9]|40", re.IGNORECASE)),
    (re.compile(r"index\.sparse"), _BOOL),
    (re.compile(r"extensions\.objectformat"), re.compile(r"sha1|sha256")),
    (re.compile(r"extensions\.refstorage"), re.compile(r"files|reftable")),
    (re.compile(rf"branch\.{_NAME}\.remote"), re.compile(r"[\w.][\w./-]{0,199}")),
    (re.compile(rf"branch\.{_NAME}\.merge"), re.compile(r"refs/[^\s\x00-\x1f\\\"]{1,200}")),
    (re.compile(rf"remote\.{_NAME}\.fetch"), re.compile(r"\+?refs/[^\s:\\\"]{1,200}:refs/[^\s:\\\"]{1,200}")),
)
"""Keys that only describe data, and the values they may have. Sizes, names and switches: none of them names a program or a file."""

_AUTHOR = re.compile(r"\s*([^<>\n\x00-\x1f]*?)\s*<([^<>\s\x00-\x1f]*)>\s*")
FALLBACK = ("toolbox-mcp", "toolbox-mcp@localhost")


@dataclass(frozen=True)
class GitSettings:
    """How git is run.

    binary: where it is, None where it is not installed. env: what hooks get, where the operator lets them run. home, config_home: where the operator's own
    git configuration lies, of which the name and mail are read. temp: where the folders of ours are made. author: whose name
    commits bear, `Name <mail>`; None takes the operator's. Times in seconds.
    """

    binary: str | None
    temp: Path
    env: Mapping[str, str] = field(default_factory=dict)
    home: str | None = None
    config_home: str | None = None
    timeout: float = 120.0
    hooks: bool = False
    author: str | None = None


@dataclass(frozen=True)
class Done:
    """What a command wrote; cut: it wrote more than is kept. code: its exit status."""

    out: bytes
    code: int
    errors: str
    cut: bool = False

    @property
    def text(self) -> str:
        """The output without ANSI sequences and control characters. A lone CR goes, as it would begin a line that git did not write."""
        return clean(self.out.replace(b"\r\n", b"\n").replace(b"\r", b"").decode("utf-8", "replace"))


class Git:
    """git on the repositories of one server."""

    def __init__(self, settings: GitSettings, zygote: Zygote) -> None:
        self.settings = settings
        self._zygote = zygote
        self._folder: str | None = None
        self._known: Times = {}
        self._shadows: dict[tuple[str, str], ShadowFolder] = {}
        self._locks: dict[str, anyio.Lock] = {}
        self._identity: tuple[str, str] | None = None
        self.reads = GitReads(self)
        self.writes = GitWrites(self)

    async def aclose(self) -> None:
        """Remove the folders of ours."""
        if self._folder:
            await to_thread.run_sync(partial(shutil.rmtree, self._folder, ignore_errors=True))
            self._folder = None

    async def repository(self, folder: JailedPath) -> Repository:
        """Return the repository that a folder is in. ToolError unavailable, not_a_directory, not_a_repo, refused."""
        if self.settings.binary is None:
            raise not_installed("git")
        return await to_thread.run_sync(self._found, folder)

    def _found(self, folder: JailedPath) -> Repository:
        try:
            return find(folder, self._known)
        except OSError as e:
            raise refusal(e, f"the repository of {folder.shown}") from None

    async def shadow(self, repo: Repository, *, own: bool = False) -> ShadowFolder:
        """Return the folder that stands for a repository's own. own: one that nobody else uses."""
        key = (repo.git_dir, repo.common_dir)
        shadow = None if own else self._shadows.get(key)
        if shadow is None:
            shadow = ShadowFolder(repo, tempfile.mkdtemp(dir=self._made()))
            if not own:
                while len(self._shadows) >= MAX_SHADOWS:
                    self._shadows.pop(next(iter(self._shadows)))
                self._shadows[key] = shadow
        configured = await to_thread.run_sync(shadow.changed_config)
        if configured is not None:
            taken: dict[str, list[str]] = {}
            for path in configured:
                for name, values in (await self._described(path)).items():
                    taken[name] = values
            hooks = taken.pop("core.hookspath", [os.path.join(repo.common_dir, "hooks")])[-1]
            # What reads runs no hook, whatever the operator lets run.
            await to_thread.run_sync(shadow.configure, taken, hooks if own and self.settings.hooks else os.devnull)
        await to_thread.run_sync(shadow.refresh)
        return shadow

    def lock(self, repo: Repository) -> anyio.Lock:
        """Return the lock for one writer of a repository at a time."""
        return self._locks.setdefault(repo.common_dir, anyio.Lock())

    async def run(
        self,
        args: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: bytes = b"",
        most: int = MAX_OUTPUT,
        tree: JailedPath | None = None,
    ) -> Finished:
        """Run git to its end. tree: the work tree that it reads. ToolError timeout, refused."""
        if self.settings.binary is None:
            raise not_installed("git")
        special: list[str] = []
        looking = asyncio.ensure_future(_look(tree, special)) if tree else None
        try:
            done = await run(
                self._zygote,
                [self.settings.binary, "--no-pager", *args],
                cwd=cwd,
                env=env,
                timeout=self.settings.timeout,
                stdin=stdin,
                capture=Capture(head=most, tail=0),
                limits=Limits(memory=MEMORY, output=most),
                clean=str,
                grace=GRACE,
                inspect=lambda: _WAITS if special else None,
            )
        finally:
            if looking:
                looking.cancel()
        if tree and done.killed_by == _WAITS:
            raise ToolError(
                Code.REFUSED,
                f"the repository at {tree.shown} is not used: {visible_name(special[0])} is a special file,"
                " for which git waits",
                "replace it by a file",
            )
        if done.timed_out:
            raise ToolError(
                Code.TIMEOUT,
                f"git {args[0]} took longer than {self.settings.timeout:g} s",
                "narrow the path; a dead mount in the work tree also stops git",
            )
        return done

    def environment(self, shadow: ShadowFolder, *, write: bool) -> dict[str, str]:
        """Return all that git sees of an environment."""
        settings, repo = self.settings, shadow.repo
        env = {
            "PATH": os.path.dirname(settings.binary or ""),
            "HOME": shadow.home,
            "XDG_CONFIG_HOME": shadow.home,
            "LC_ALL": "C.UTF-8",
            "TZ": settings.env.get("TZ", ""),
            "TERM": "dumb",
            "GIT_DIR": shadow.folder,
            "GIT_WORK_TREE": repo.work_tree.absolute,
            "GIT_INDEX_FILE": os.path.join(repo.git_dir, "index"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "false",
            "SSH_ASKPASS": "false",
            "GIT_SSH_COMMAND": "false",
            "GIT_PAGER": "cat",
            "GIT_EDITOR": "true",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_PROTOCOL_FROM_USER": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_CEILING_DIRECTORIES": os.path.dirname(repo.work_tree.absolute),
            "GIT_ADVICE": "0",
        }
        if not write:
            env["GIT_OPTIONAL_LOCKS"] = "0"
        elif settings.hooks:
            env = {**settings.env, **env, "PATH": settings.env.get("PATH", env["PATH"])}
            env["HOME"] = settings.env.get("HOME", shadow.home)
        return {name: value for name, value in env.items() if value}

    async def identity(self) -> tuple[str, str]:
        """Return the name and mail of whoever commits here."""
        if self._identity is None:
            if self.settings.author and (found := _AUTHOR.fullmatch(self.settings.author)):
                self._identity = found[1], found[2]
            else:
                self._identity = await self._operator() or FALLBACK
        return self._identity

    async def _operator(self) -> tuple[str, str] | None:
        """Read the operator's global configuration, as git does, for two values that are only text."""
        home = self.settings.home
        if not home or not await to_thread.run_sync(_has_config, home, self.settings.config_home):
            return None
        env = {"PATH": os.path.dirname(self.settings.binary or ""), "HOME": home, "LC_ALL": "C.UTF-8"}
        if self.settings.config_home:
            env["XDG_CONFIG_HOME"] = self.settings.config_home
        env["GIT_CONFIG_NOSYSTEM"] = "1"
        args = ["config", "--global", "--includes", "--null", "--get-regexp", r"^user\.(name|email)$"]
        with suppress(ToolError):
            done = await self.run(args, cwd="/", env=env, most=MAX_CONFIG)
            pairs = (each.split("\n", 1) for each in done.stdout.raw.decode("utf-8", "replace").split("\0") if each)
            found = {pair[0]: _one_line(pair[1]) for pair in pairs if len(pair) == 2}
            if found.get("user.name") and found.get("user.email"):
                return found["user.name"], found["user.email"]
        return None

    def _made(self) -> str:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="toolbox-git-", dir=self.settings.temp)
        return self._folder

    async def _described(self, path: str) -> dict[str, list[str]]:
        """Return those keys of a configuration that only describe data. Nothing that it includes is read."""
        env = {
            "PATH": os.path.dirname(self.settings.binary or ""),
            "HOME": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_DIR": os.devnull,
            "LC_ALL": "C.UTF-8",
        }
        args = ["config", "--file", path, "--no-includes", "--null", "--list"]
        done = await self.run(args, cwd="/", env=env, most=4 * MAX_CONFIG)
        if done.exit_code:
            raise ToolError(Code.GIT_FAILED, "git cannot read the repository's configuration")
        taken: dict[str, list[str]] = {}
        for each in done.stdout.raw.decode("utf-8", "surrogateescape").split("\0"):
            name, equals, value = each.partition("\n")
            section, _, rest = name.partition(".")
            if name == "core.hookspath":
                taken[name] = [value]
            elif any(key.fullmatch(name) and (values.fullmatch(value)) for key, values in _TAKEN) and (
                section and rest
            ):
                taken.setdefault(name, []).append(value if equals else "true")
        return taken


@dataclass(frozen=True)
class GitReads:
    """git commands that only read."""

    _git: Git

    async def repository(self, folder: JailedPath) -> Repository:
        """Return the repository that a folder is in. ToolError unavailable, not_a_directory, not_a_repo, refused."""
        return await self._git.repository(folder)

    async def run(
        self,
        repo: Repository,
        command: str,
        *args: str,
        paths: Sequence[str] | None = None,
        codes: Sequence[int] = (0,),
        cut: bool = False,
    ) -> Done:
        """Run a command that only reads. paths: relative to the work tree, literal; none of them
        is all of it, None is for commands that take no paths. codes: the exit statuses that are answers.

        cut: more output than is kept is an answer too. ToolError git_failed, bad_ref, output_limit, timeout.
        """
        assert command in READS
        shadow = await self._git.shadow(repo)
        env = self._git.environment(shadow, write=False)
        tail = [] if paths is None else ["--", *paths]
        done = await self._git.run([command, *args, *tail], cwd=repo.work_tree.absolute, env=env, tree=repo.work_tree)
        return _answer(done, command, shadow, codes, cut=cut)


@dataclass(frozen=True)
class GitWrites:
    """git commands that change the index, refs or work tree, on a folder of ours for each."""

    _git: Git

    @property
    def runs_hooks(self) -> bool:
        """Whether the hooks of a repository run."""
        return self._git.settings.hooks

    @asynccontextmanager
    async def changing(self, repo: Repository) -> AsyncIterator["GitChange"]:
        """Hold a repository against other writers of this server, and lend what changes it.

        With the block, HEAD of the repository is what the commands made it. ToolError git_failed where another git holds HEAD.
        """
        async with self._git.lock(repo):
            shadow = await self._git.shadow(repo, own=True)
            head = os.path.join(repo.git_dir, "HEAD")
            try:
                fd = os.open(head + ".lock", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                raise ToolError(
                    Code.GIT_FAILED,
                    "another git is at work in this repository (HEAD.lock)",
                    "try again when it is done",
                ) from None
            held = True
            try:
                for folder in (os.path.join(repo.common_dir, "logs", "refs"), os.path.join(repo.git_dir, "logs")):
                    os.makedirs(folder, exist_ok=True)
                try:
                    yield GitChange(self._git, repo, shadow)
                finally:
                    # Also after a failure: what git did to the work tree belongs to the HEAD that it set.
                    held = not _take_over(shadow, repo, fd, head)
            finally:
                os.close(fd)
                if held:
                    with suppress(FileNotFoundError):
                        os.unlink(head + ".lock")
                shutil.rmtree(shadow.folder, ignore_errors=True)

    async def identity(self) -> tuple[str, str]:
        """Return the name and mail of whoever commits here."""
        return await self._git.identity()


@dataclass(frozen=True)
class GitChange:
    """A repository that is held for a change."""

    _git: Git
    repo: Repository
    _shadow: ShadowFolder

    async def run(
        self,
        command: str,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        codes: Sequence[int] = (0,),
    ) -> Done:
        """Run a command. ToolError as from GitReads.run()."""
        assert command in READS | WRITES
        # Once begun it ends before the call does: a work tree half changed is nobody's wish.
        with anyio.CancelScope(shield=True):
            done = await self._git.run(
                [command, *args],
                cwd=self.repo.work_tree.absolute,
                env={**self._git.environment(self._shadow, write=True), **(env or {})},
                stdin=stdin,
                tree=self.repo.work_tree,
            )
            return _answer(done, command, self._shadow, codes, cut=False)
        raise AssertionError

    @property
    def merging(self) -> bool:
        """Whether a merge, cherry-pick or revert waits for its commit."""
        return any(self._shadow.read(name) is not None for name in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"))


async def _look(tree: JailedPath, found: list[str]) -> None:
    """Wait, then add what git would wait for in a work tree, if there is such a file."""
    await anyio.sleep(LOOK_AFTER)
    over = Event()
    try:
        if path := await to_thread.run_sync(special_file, tree, over.is_set, abandon_on_cancel=True):
            found.append(path)
    finally:
        over.set()


def _take_over(shadow: ShadowFolder, repo: Repository, lock: int, head: str) -> bool:
    """Give the repository the HEAD that a command made, and take away what it took away of a merge's notes.

    Return whether the lock became the HEAD.
    """
    for name in shadow.taken_away():
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(repo.git_dir, name))
    made = shadow.read("HEAD")
    if made is None or made == read_regular(head):
        return False
    os.write(lock, made)
    os.fsync(lock)
    os.rename(head + ".lock", head)
    return True


_UNKNOWN = re.compile(
    r"unknown revision|bad revision|ambiguous argument|not a valid object name|Needed a single revision|bad object|"
    r"no such branch|no upstream configured|unable to resolve|HEAD does not point to a branch|invalid reference|"
    r"Not a valid object name|log for .* only has|is not a commit|expected commit type|upstream branch|does not have any commits|"
    r"Invalid revision range|Invalid symmetric difference|no merge base"
)


def _answer(done: Finished, command: str, shadow: ShadowFolder, codes: Sequence[int], *, cut: bool) -> Done:
    """Return the output of a command. ToolError git_failed, bad_ref, output_limit."""
    if done.killed_by == "output":
        if not cut:
            raise ToolError(
                Code.OUTPUT_LIMIT, f"git {command} writes more than {MAX_OUTPUT} bytes", "narrow the path or the range"
            )
        return Done(done.stdout.raw, 0, "", cut=True)
    if done.killed_by == "memory":
        raise ToolError(
            Code.GIT_FAILED, f"git {command} took more than {MEMORY >> 30} GiB of memory", "narrow the path"
        )
    errors = _plain(done.stderr.raw, shadow)
    if done.exit_code in codes:
        return Done(done.stdout.raw, done.exit_code, errors)
    lines = [line for line in errors.splitlines() if line.strip()]
    said = "; ".join(lines[:5])[:1000] or f"exit status {done.exit_code}"
    said = re.sub(r"^(?:fatal|error): ", "", said)
    if _UNKNOWN.search(errors):
        said = said.partition("; Use '--' to separate")[0]
        raise ToolError(Code.BAD_REF, said, "git_branch and git_log show what there is")
    raise ToolError(Code.GIT_FAILED, f"git {command}: {said}")


def _plain(data: bytes, shadow: ShadowFolder) -> str:
    """Return the message of git, with the project's own names in it."""
    text = clean(data.decode("utf-8", "replace"))
    repo = shadow.repo
    names = [(shadow.folder, ".git"), (repo.git_dir, ".git"), (repo.common_dir, ".git")]
    for name, plain in (*names, (repo.work_tree.absolute + "/", ""), (repo.work_tree.absolute, ".")):
        text = text.replace(name, plain)
    return text


def _has_config(home: str, config_home: str | None) -> bool:
    """Return True if git has a global configuration to read, and nothing in its place that it would wait for."""
    folder = config_home or os.path.join(home, ".config")
    places = (os.path.join(home, ".gitconfig"), os.path.join(folder, "git", "config"))
    files = [os.path.isfile(place) for place in places if os.path.exists(place)]
    return bool(files) and all(files)


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f<>]", "", clean(text)).strip()[:200]
