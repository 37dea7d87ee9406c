"""The worker's own process: it takes a function's name and arguments and answers with the result.

It imports nothing of the server. It is confined before it hears of its first call: no file can
be written, only Python and its libraries can be read, no network, no signals to others, and
nothing is started that could outlive it.
"""

import contextlib
import os
import resource
import socket
import sys
import traceback

from ...safety.errors import ToolError
from . import codec
from .errors import words_of
from .interpreter import PACKAGE, find, prefixes

_SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/zero", "/dev/urandom")


def main(arguments: list[str]) -> None:
    """Serve calls on a socket until it closes. Arguments: descriptor, parent's pid, memory in MiB."""
    descriptor, parent, memory_mb = map(int, arguments)
    link = socket.socket(fileno=descriptor)
    _limit(memory_mb)
    if sys.platform == "linux":
        _confine(parent)
    # Made beforehand: the report of a full memory must not need memory.
    full = b"".join(codec.encode({"memory": True}))
    _send(link, codec.encode({"peak": _peak()}))
    while (request := _receive(link)) is not None:
        try:
            reply = _answer(*request)
        except MemoryError:
            reply = [full]
        del request
        _send(link, reply)
        del reply


def _answer(prefix: bytes, body: bytearray) -> list[bytes]:
    name, arguments, seconds = codec.decode(prefix, body)
    _limit_cpu(seconds)
    try:
        return codec.encode({"value": find(name)(*arguments)})
    except MemoryError:
        raise
    except ToolError as e:
        return codec.encode({"tool_error": (e.code.value, e.error, e.hint)})
    except BaseException as e:  # noqa: BLE001 - whatever it is, the caller hears of it
        trace = "".join(traceback.format_exception(e))[-16_000:]
        return codec.encode({"error": (type(e).__name__, words_of(e)[:4000], trace)})


def _limit(memory_mb: int) -> None:
    # A limit of 0 keeps core files away, but on Linux not a core_pattern that is a program; 1 stops both (core(5)).
    core = int(sys.platform == "linux")
    for kind, value in ((resource.RLIMIT_AS, memory_mb << 20), (resource.RLIMIT_CORE, core)):
        try:
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError):
            # macOS refuses RLIMIT_AS; the deadline still holds.
            continue


def _limit_cpu(seconds: float) -> None:
    """Arm the guard for a parent that is stopped and kills nobody. CPU time adds up over calls."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + 2 * seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _peak() -> int:
    """Return the peak of resident memory so far, of which a part may be the parent's from before exec."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _confine(parent: int) -> None:
    from ..linux import landlock, seccomp
    from ..linux.syscalls import PR_SET_PDEATHSIG, prctl, set_name

    set_name("tbx-worker")
    prctl(PR_SET_PDEATHSIG, 9)
    if os.getppid() != parent:
        os._exit(0)
    # A confined server cannot write there, and then neither can this.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("500")
    if landlock.abi():
        folders = [*_SYSTEM, *prefixes(), PACKAGE, *sys.path]
        allowed = [(folder, landlock.READ) for folder in folders]
        landlock.restrict([*allowed, ("/dev/null", landlock.READ | landlock.Right.WRITE_FILE)])
    # What Landlock does not know: UDP and other sockets, file modes, namespaces, other processes.
    architecture = seccomp.architecture()
    if architecture is not None:
        with contextlib.suppress(OSError):
            seccomp.install(seccomp.build(architecture, metadata=False, network=False, processes=False))


def _receive(link: socket.socket) -> tuple[bytes, bytearray] | None:
    prefix = bytearray(codec.PREFIX.size)
    if not codec.fill(link, prefix):
        return None
    body = bytearray(codec.body_size(prefix))
    return (bytes(prefix), body) if codec.fill(link, body) else None


def _send(link: socket.socket, buffers: list[bytes]) -> None:
    for buffer in buffers:
        link.sendall(buffer)
