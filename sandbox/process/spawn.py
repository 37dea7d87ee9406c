"""Starting a program: below a supervisor, in a session of its own, with limits from its first moment."""

import errno
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ...safety.errors import Code, ToolError, not_installed
from ..environment import which
from .child import Child, ChildProcess, Started
from .ps_sweep import MARKER

if TYPE_CHECKING:
    from ..linux.zygote_client import Zygote


_FOLDER = "folder"
"""The step of a start that failed, where it was not that of the program."""


@dataclass(frozen=True)
class Rlimits:
    """Limits that the kernel holds each process of a program to; None is no limit.

    data: bytes of data segment and private memory. cpu: seconds, at which SIGXCPU ends it. file_size: bytes.
    """

    data: int | None = None
    cpu: int | None = None
    file_size: int | None = None


async def start(
    zygote: "Zygote",
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | int,
    env: Mapping[str, str],
    rlimits: Rlimits | None = None,
    stdin: bool = True,
    terminal: int | None = None,
) -> Child:
    """Start a program below a supervisor, where there is none (macOS) as a child.

    cwd: a folder, or a descriptor of one. env: all it gets. stdin=False: it reads from /dev/null. terminal: a descriptor
    of one that becomes its three streams and controls its session; there are no pipes then. Raises
    ToolError(unavailable) where the program is not there.
    """
    if sys.platform != "linux":
        return spawn(argv, cwd=cwd, env=env, rlimits=rlimits, stdin=stdin, terminal=terminal)
    from ..linux.zygote_client import SetupFailed

    folder: int | None = None
    try:
        _insist_on_text([*argv, *env, *env.values()])
        found = _found(argv[0], env)
        folder = cwd if isinstance(cwd, int) else _open_folder(cwd)
        job = {
            "program": found,
            "argv": list(argv),
            "env": dict(env),
            "limits": asdict(rlimits or Rlimits()),
            "terminal": terminal is not None,
        }
        return await zygote.start_plain(job, folder, stdin=stdin, terminal=terminal)
    except OSError as failure:
        raise _refusal(argv[0], failure) from None
    except SetupFailed as failure:
        name = os.path.basename(argv[0])
        raise ToolError(Code.UNAVAILABLE, f"{name} could not be started: {failure}") from None
    finally:
        if folder is not None and folder != cwd:
            os.close(folder)


def spawn(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | int,
    env: Mapping[str, str],
    rlimits: Rlimits | None = None,
    pass_fds: Sequence[int] = (),
    stdin: bool = True,
    terminal: int | None = None,
    popen: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen,
) -> ChildProcess:
    """Start a program as a child of this process, in a session of its own: one that starts nothing itself.

    As start(). pass_fds: what it inherits beside its three streams. popen: starts it, in place of subprocess.Popen.
    Must run in a coroutine, on the main thread.
    """
    # The server's pid tells whose programs these are, where nothing else does (ps_sweep.py).
    marker = f"{os.getpid()}-{secrets.token_hex(16)}" if sys.platform != "linux" else ""
    prefix = _prefix(rlimits or Rlimits(), terminal)
    pipe = subprocess.DEVNULL if terminal is not None else subprocess.PIPE
    try:
        _insist_on_text([*argv, *env, *env.values()])
        found = _found(argv[0], env)
        line = [*prefix, found, *argv[1:]] if prefix else list(argv)
        started = popen(
            line,
            executable=None if prefix else found,
            bufsize=0,
            stdin=pipe if stdin else subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            cwd=_folder(cwd),
            env={**env, MARKER: marker} if marker else dict(env),
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )
    except OSError as failure:
        if failure.filename == _FOLDER:
            failure.filename = _FOLDER
        raise _refusal(argv[0], failure) from None
    return ChildProcess(Started(started), marker)


def _insist_on_text(words: Sequence[str]) -> None:
    try:
        if any(b"\0" in os.fsencode(word) for word in words):
            raise ValueError
    except ValueError:
        # A NUL, or half of a surrogate pair.
        message = "arguments and variables of a program have to be valid Unicode without a NUL character"
        raise ToolError(Code.INVALID_ARGS, message) from None


def _open_folder(path: str | os.PathLike[str]) -> int:
    try:
        return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as failure:
        raise OSError(failure.errno, failure.strerror, _FOLDER) from None


def _prefix(rlimits: Rlimits, terminal: int | None) -> list[str]:
    """A shell that limits itself, takes the terminal, and becomes the program; nothing where there is nothing to do.

    Set from outside after the start, limits would come too late for the program's first children.
    """
    steps = []
    if rlimits.data is not None:
        steps.append(f"ulimit -d {max(1, rlimits.data // 1024)}")
    if rlimits.cpu is not None:
        # The hard limit kills without a word; the soft one, a second earlier, names the cause. In this order,
        # because no shell sets a hard limit below the soft one.
        steps.append(f"ulimit -St {max(1, rlimits.cpu)} && ulimit -Ht {max(1, rlimits.cpu) + 1}")
    if rlimits.file_size is not None:
        steps.append(f"ulimit -f {max(1, rlimits.file_size // 512)}")
    if terminal is not None:
        # A session leader that opens a terminal gets it as its controlling one.
        return ["/bin/sh", "-c", " && ".join(['exec <>"$0" >&0 2>&0', *steps, 'exec "$@"']), os.ttyname(terminal)]
    return ["/bin/sh", "-c", " && ".join([*steps, 'exec "$0" "$@"'])] if steps else []


def _found(program: str, env: Mapping[str, str]) -> str:
    """Find the program; exec would look in relative folders too, and a shell would answer a missing one by a status."""
    found = program if "/" in program else which(program, env)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return found


def _folder(cwd: str | os.PathLike[str] | int) -> str:
    if not isinstance(cwd, int):
        return os.fspath(cwd)
    if sys.platform == "darwin":
        import fcntl

        return fcntl.fcntl(cwd, fcntl.F_GETPATH, b"\0" * 1024).rstrip(b"\0").decode()
    # The child changes folder before it closes descriptors, so the link still leads to the opened folder.
    return f"/proc/self/fd/{cwd}"


def arguments_too_long(program: str) -> ToolError:
    """Return the error for arguments that the system does not pass on."""
    return ToolError(Code.TOO_LARGE, f"the arguments for {os.path.basename(program)} are longer than the system takes")


def _refusal(program: str, failure: OSError) -> ToolError:
    name = os.path.basename(program) or program
    if failure.errno == errno.E2BIG:
        return arguments_too_long(name)
    if failure.filename == _FOLDER:
        return ToolError(Code.NOT_A_DIRECTORY, "the working directory is not a folder that can be entered")
    if failure.errno == errno.ENOEXEC:
        return ToolError(Code.UNAVAILABLE, f"{name} is not a program that this system can run")
    if failure.errno in (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.EPERM):
        return not_installed(name)
    return ToolError(Code.UNAVAILABLE, f"{name} could not be started: {os.strerror(failure.errno or 0)}")
