"""The languages that snippets can be written in, as data: how each is found, run, and how little it can live with.

A program comes on stdin. Adding a language is one entry in LANGUAGES.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ..safety.errors import Code, ToolError, not_installed
from .linux.confine import SYSTEM
from .linux.namespaces import barrier
from .linux.zygote_client import Zygote
from .process.runner import run
from .spec import MIB, FsPolicy

_ASK_SECONDS = 30.0
"""A guess: version managers take up to half a second to start what they stand for."""
_TRY = "it has to run as the user and with the environment of this server"
_MOVE = "every user has to be able to enter the folders that it lies in"


@dataclass(frozen=True)
class Language:
    """How programs of one language are run.

    programs: names of the interpreter, best first. ask: arguments that make it tell where it lives. tell: reads
    the answer into (executable, what it reads). argv: the command that runs stdin, {} being the executable.
    container_argv: the same in a container. compiler: a first step, which reads the source from stdin and writes
    an executable to stdout; the run step then has that on stdin. Floors are the least that it starts with.
    """

    name: str
    programs: tuple[str, ...]
    ask: tuple[str, ...]
    tell: Callable[[str], tuple[str, list[str]]]
    argv: tuple[str, ...]
    container_argv: tuple[str, ...]
    compiler: tuple[str, ...] = ()
    container_compiler: tuple[str, ...] = ()
    floors: Mapping[str, int] = field(default_factory=dict)
    compile_floors: Mapping[str, int] = field(default_factory=dict)
    own_interpreter: bool = False
    """The interpreter of this very server is one of the language."""
    reserves: int = 0
    """Bytes that it makes writable when it starts and hardly touches: the limit on data is raised by them.

    What it does touch is watched as ever.
    """
    waiting: int = 0
    """How many programs are kept started once the language has been used; it must read all of stdin before it runs."""


@dataclass(frozen=True)
class Toolchain:
    """A language as found here: its executable and what it needs to read."""

    executable: str
    files: FsPolicy

    def fill(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return a command of the language with the executable in its place."""
        return tuple(self.executable if part == "{}" else part for part in argv)


def _listed(answer: str) -> tuple[str, list[str]]:
    executable, *places = json.loads(answer)
    return executable, places


def _sysroot(answer: str) -> tuple[str, list[str]]:
    root = answer.strip()
    return f"{root}/bin/rustc", [f"{root}/bin", f"{root}/lib", f"{root}/libexec"]


_PYTHON = """
import json, os, sys
prefixes = dict.fromkeys([sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix])
parts = [os.path.join(p, part) for p in prefixes for part in ("bin", "lib", "lib64", "pyvenv.cfg")]
print(json.dumps([sys.executable, *parts, *[p for p in sys.path if os.path.isabs(p)]]))
"""
_RUBY = """
prefix = RbConfig::CONFIG["prefix"]
gems = Gem.path - [Gem.user_dir]
puts JSON.generate([RbConfig.ruby, *%w[bin lib lib64].map { |part| File.join(prefix, part) }, *$LOAD_PATH, *gems])
"""
_NODE = """
const path = require("path"), bin = process.execPath;
console.log(JSON.stringify([bin, bin, path.resolve(bin, "../../lib/node_modules")]));
"""

# The source goes to a file because rustc names errors by it; what is linked goes to stdout, out of the sandbox.
_RUSTC = 'cat > main.rs && "$0" --edition 2021 --color never -C strip=debuginfo -o main main.rs >&2 && cat main'
BINARY = "main"
"""What a compiled program is called in its scratch folder."""

_RUN_BINARY = "cat > main && chmod 700 main && exec ./main < /dev/null"

_ISOLATES = 5
"""The main thread of node and four workers; a guess at what a snippet starts."""

LANGUAGES: Mapping[str, Language] = MappingProxyType(
    {
        language.name: language
        for language in (
            Language(
                name="python",
                programs=("python3", "python"),
                ask=("-I", "-c", _PYTHON),
                tell=_listed,
                argv=("{}", "-u", "-"),
                container_argv=("python3", "-u", "-"),
                floors={"memory": 64 * MIB, "data": 16 * MIB, "processes": 1},
                own_interpreter=True,
                # One for the call, one for the call that comes while the first is replaced.
                waiting=2,
            ),
            Language(
                name="ruby",
                programs=("ruby",),
                ask=("-rjson", "-rrbconfig", "-e", _RUBY),
                tell=_listed,
                argv=("{}", "-"),
                container_argv=("ruby", "-"),
                floors={"memory": 64 * MIB, "data": 64 * MIB, "processes": 4},
            ),
            Language(
                name="node",
                programs=("node", "nodejs"),
                ask=("-e", _NODE),
                tell=_listed,
                argv=("{}", "-"),
                container_argv=("node", "-"),
                floors={"memory": 256 * MIB, "data": 64 * MIB, "processes": 16},
                # V8 of Node 24 maps 512 MiB for the code of each isolate and makes all of it writable at once.
                reserves=_ISOLATES * 512 * MIB,
            ),
            Language(
                name="rust",
                programs=("rustc",),
                ask=("--print", "sysroot"),
                tell=_sysroot,
                argv=("/bin/sh", "-c", _RUN_BINARY),
                container_argv=("/bin/sh", "-c", _RUN_BINARY),
                compiler=("/bin/sh", "-c", _RUSTC, "{}"),
                container_compiler=("/bin/sh", "-c", _RUSTC, "rustc"),
                floors={
                    "memory": 64 * MIB,
                    "data": 64 * MIB,
                    "processes": 16,
                    "disk": 256 * MIB,
                    "file_size": 64 * MIB,
                },
                compile_floors={"memory": 1024 * MIB, "data": 256 * MIB, "processes": 16, "disk": 256 * MIB},
            ),
        )
    }
)


async def find(
    zygote: Zygote, language: Language, env: Mapping[str, str], home: str, *, reachable_by: int | None = None
) -> Toolchain:
    """Find a language on the operator's PATH and ask it where it lives.

    env: the environment it is asked in. home: a folder that is never read as a whole. reachable_by: a user who has
    to be able to enter its folders. Raises ToolError(unavailable).
    """
    seen: set[str] = set()
    refusal = not_installed(language.programs[0])
    for candidate in _candidates(language, env):
        name = os.path.basename(candidate)
        if (told := await _told(zygote, language, candidate, env)) is None:
            refusal = ToolError(Code.UNAVAILABLE, f"{name} is installed, and does not work", _TRY)
            continue
        executable, places = told
        if executable in seen:
            continue
        seen.add(executable)
        read = narrow(places, home)
        found = Toolchain(executable, FsPolicy(read=read, links=links_to(executable, read)))
        if reachable_by is None or _open_to(found, reachable_by):
            return found
        refusal = ToolError(Code.UNAVAILABLE, f"{name} is installed where a sandboxed program may not go", _MOVE)
    raise refusal


async def _told(
    zygote: Zygote, language: Language, candidate: str, env: Mapping[str, str]
) -> tuple[str, list[str]] | None:
    try:
        answered = await run(zygote, [candidate, *language.ask], cwd="/", env=env, timeout=_ASK_SECONDS)
        executable, places = language.tell(answered.stdout.text)
    except (ToolError, ValueError, TypeError):
        return None
    return None if answered.exit_code or not os.access(executable, os.X_OK) else (executable, places)


def _open_to(found: Toolchain, uid: int) -> bool:
    places = (os.path.realpath(found.executable), *found.files.read)
    return all(barrier(place, uid) is None for place in places)


def links_to(path: str, shown: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return (place, target) of the symbolic links on the way to a path, without those in the shown folders."""
    visible = (*shown, *SYSTEM)
    found: dict[str, str] = {}
    todo = path.strip("/").split("/")
    done = ""
    for _ in range(1000):
        if not todo:
            break
        part, todo = todo[0], todo[1:]
        if part in ("", "."):
            continue
        if part == "..":
            done = os.path.dirname(done).rstrip("/")
            continue
        here = f"{done}/{part}"
        if not os.path.islink(here):
            done = here
            continue
        target = os.readlink(here)
        if not any(here == place or here.startswith(place + "/") for place in visible):
            found[here] = target
        todo = target.strip("/").split("/") + todo
        done = "" if target.startswith("/") else done
    return tuple(found.items())


def _candidates(language: Language, env: Mapping[str, str]) -> Iterable[str]:
    path = env.get("PATH", "")
    for name in language.programs:
        for folder in path.split(os.pathsep):
            if folder and (found := shutil.which(name, path=folder)):
                yield found
    if language.own_interpreter:
        yield sys.executable
    for name in language.programs:
        if found := shutil.which(name, path="/usr/bin:/usr/local/bin"):
            yield found


def narrow(places: Iterable[str], home: str) -> tuple[str, ...]:
    """Return the real paths of what exists, without what is in view anyway and without any that holds the home."""
    kept: list[str] = []
    real_home = os.path.realpath(home)
    for place in sorted({os.path.realpath(place) for place in places if os.path.exists(place)}):
        holds_home = place == "/" or real_home == place or real_home.startswith(place + "/")
        above = (*kept, *SYSTEM)
        if not holds_home and not covered(place, above):
            kept.append(place)
    return tuple(kept)


def covered(place: str, folders: Iterable[str]) -> bool:
    """Return True if a real path is one of some folders, or lies in one."""
    return any(place == folder or place.startswith(folder + "/") for folder in folders)
