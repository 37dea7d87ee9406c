"""Starting a program: in a session of its own, with limits and marks from its first moment."""

import contextlib
import errno
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...safety.errors import Code, ToolError, not_installed
from ..environment import which
from .child import Program, Spawned, Started
from .tree import FILE_LOCKS, MARKER

if sys.platform != "win32":
    import resource


@dataclass(frozen=True)
class Rlimits:
    """Limits that the kernel holds each process of a program to; None is no limit.

    data: bytes of data segment and private memory. cpu: seconds, at which SIGXCPU ends it. file_size: bytes.
    """

    data: int | None = None
    cpu: int | None = None
    file_size: int | None = None


def spawn(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | int,
    env: Mapping[str, str],
    rlimits: Rlimits | None = None,
    pass_fds: Sequence[int] = (),
    stdin: bool = True,
    terminal: str | None = None,
    popen: Callable[..., subprocess.Popen[bytes] | Started] = subprocess.Popen,
) -> Program:
    """Start a program in a session of its own.

    cwd: a folder, or a descriptor of one. env: all it gets, plus the marker. pass_fds: what it inherits beside its
    three streams. stdin=False: it reads from /dev/null. terminal: the path of one that becomes its three streams
    and controls its session; there are no pipes then. popen: starts it, in place of subprocess.Popen. Must run in a
    coroutine, on the main thread. Raises ToolError(unavailable) where the program is not there.
    """
    if sys.platform == "win32":
        raise ToolError(Code.UNSUPPORTED_PLATFORM, "programs are not run on Windows")
    # The server's pid tells whose programs these are, where nothing else does (sandbox/marker.py).
    marker = f"{os.getpid()}-{secrets.token_hex(16)}"
    locks = 1 << 60 | secrets.randbits(60) if sys.platform == "linux" else 0
    prefix = _prefix(rlimits or Rlimits(), terminal)
    pipe = subprocess.DEVNULL if terminal else subprocess.PIPE
    try:
        found = _found(argv[0], env)
        line = [*prefix, found, *argv[1:]] if prefix else list(argv)
        with _limited(locks) as given:
            started = popen(
                line,
                executable=None if prefix else found,
                bufsize=0,
                stdin=pipe if stdin else subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
                cwd=_folder(cwd),
                env={**env, MARKER: marker},
                pass_fds=tuple(pass_fds),
                start_new_session=True,
            )
    except OSError as failure:
        raise _refusal(argv[0], failure, cwd) from None
    except ValueError:
        # A NUL, or half of a surrogate pair.
        message = "arguments and variables of a program have to be valid Unicode without a NUL character"
        raise ToolError(Code.INVALID_ARGS, message) from None
    return Program(Spawned(started) if isinstance(started, subprocess.Popen) else started, marker, given)


@contextlib.contextmanager
def _limited(locks: int) -> Iterator[int]:
    """Have what is started in the block inherit a limit of file locks; yield it, or 0 where that is not possible.

    Set from outside after the start, it would come too late for the program's first children.
    """
    if not locks:
        yield 0
        return
    try:
        soft, hard = resource.getrlimit(FILE_LOCKS)
        resource.setrlimit(FILE_LOCKS, (locks, hard))
    except (ValueError, OSError):
        yield 0
        return
    try:
        yield locks
    finally:
        resource.setrlimit(FILE_LOCKS, (soft, hard))


def _prefix(rlimits: Rlimits, terminal: str | None) -> list[str]:
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
    if terminal:
        # A session leader that opens a terminal gets it as its controlling one.
        return ["/bin/sh", "-c", " && ".join(['exec <>"$0" >&0 2>&0', *steps, 'exec "$@"']), terminal]
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


def _refusal(program: str, failure: OSError, cwd: str | os.PathLike[str] | int) -> ToolError:
    name = os.path.basename(program) or program
    if failure.errno == errno.E2BIG:
        return arguments_too_long(name)
    if failure.filename is not None and failure.filename == _folder(cwd):
        return ToolError(Code.NOT_A_DIRECTORY, "the working directory is not a folder that can be entered")
    if failure.errno == errno.ENOEXEC:
        return ToolError(Code.UNAVAILABLE, f"{name} is not a program that this system can run")
    if failure.errno in (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.EPERM):
        return not_installed(name)
    return ToolError(Code.UNAVAILABLE, f"{name} could not be started: {os.strerror(failure.errno or 0)}")
