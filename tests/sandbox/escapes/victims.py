"""What the attempts aim at: files, processes, sockets, keys and queues of a server that has secrets."""

import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import resource
import secrets
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ARM = os.uname().machine == "aarch64"
LOWEST_PID = 3000
"""Above any pid that a program of a sandbox has in a pid namespace of its own."""

KINDS = [
    "kill",
    "tgkill",
    "tkill",
    "sigqueue",
    "tgsigqueue",
    "pidfd",
    "group",
    "sigio",
    "sigio_group",
    "trace",
    "seize",
    "limit",
    "nice",
    "nice_group",
    "pin",
    "schedule",
    "attributes",
    "ioprio",
]

SERVER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
libc.prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)
libc.malloc.restype = ctypes.c_void_p
libc.mmap.restype = ctypes.c_void_p
place = libc.malloc(100)
secret = os.environ["HEAP_SECRET"].encode()
ctypes.memmove(place, secret, len(secret))
held = open(sys.argv[1])
libc.mmap(None, ctypes.c_size_t(4096), 1, 2, held.fileno(), ctypes.c_long(0))
print(place, flush=True)
time.sleep(1000)
"""

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


@dataclass
class Scene:
    """targets: what an attempt is told. The rest is how the scene looks from outside."""

    targets: dict[str, Any]
    folder: str
    victims: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    listeners: list[socket.socket] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)

    def traces(self) -> dict[str, list[str]]:
        """Return what an attack has left outside, by kind; each is empty where nothing was reached."""
        return {
            "outside_files": sorted(_differences(self.before, _tree(self.folder))),
            "outside_processes": [name for name, process in self.victims.items() if self._changed(name, process)],
            "outside_sockets": [str(s.getsockname()) for s in self.listeners if _reached(s)],
        }

    def settle(self) -> None:
        """Remember how everything looks before the attack."""
        self.before = _tree(self.folder)
        self._states = {name: _state(process.pid) for name, process in self.victims.items()}

    def _changed(self, name: str, process: subprocess.Popen[bytes]) -> bool:
        return process.poll() is not None or _state(process.pid) != self._states[name]


@contextmanager
def lay_out(name: str, *, top: str = "/srv", home: str = "/home/operator", mount: str = "/run") -> Iterator[Scene]:
    """Lay a scene out for one round of attempts; its processes end with it, its files stay where they are.

    top, home: folders that it is laid out in. mount: where something is mounted that the attempts must not see.
    """
    with ExitStack() as stack:
        secret = secrets.token_hex(16)
        folder = f"{top}/{name}"
        targets: dict[str, Any] = {"secret": secret, "folder": folder}
        scene = Scene(targets, folder)
        _files(scene, secret, home)
        _kept(targets)
        os.environ["SECRET"] = secret
        stack.callback(os.environ.pop, "SECRET")
        _descriptors(scene, stack)
        _sockets(scene, stack)
        _kernel_objects(targets, secret)
        _burn_pids()
        _processes(scene, stack)
        targets |= {"mount": mount, "hostname": os.uname().nodename, "device": os.stat(folder).st_dev}
        scene.settle()
        yield scene


def _files(scene: Scene, secret: str, home: str) -> None:
    folder = scene.folder
    os.mkdir(folder)
    Path(home).mkdir(exist_ok=True)
    Path(home, ".private").touch()
    writable = {}
    names = ["append", "truncate", "open", "rename", "steal", "unlink", "mode", "fmode", "owner", "times", "attributes"]
    for name in ("file", *names):
        place = f"{folder}/{name}"
        Path(place).write_text(f"{secret}\n")
        os.chmod(place, 0o666)
        writable[name] = place
    os.mkdir(f"{folder}/empty")
    os.symlink("file", f"{folder}/link")
    program = Path(folder, "program")
    program.write_text("#!/bin/sh\nexit 42\n")
    program.chmod(0o755)
    os.mkfifo(f"{folder}/fifo", 0o666)
    # Somebody has to read, or a fifo cannot be opened for writing at once.
    scene.descriptors.append(os.open(f"{folder}/fifo", os.O_RDONLY | os.O_NONBLOCK))
    shared = f"toolbox-{secrets.token_hex(8)}"
    for place in (f"{top}/{shared}{ending}" for top in ("/dev/shm", "/tmp") for ending in ("", "-2")):
        Path(place).write_text(secret)
    scene.targets |= {
        "file": writable["file"],
        "w": writable | {"empty": f"{folder}/empty"},
        "link": f"{folder}/link",
        "program": str(program),
        "fifo": f"{folder}/fifo",
        "shm": shared,
        "tmp_file": f"/tmp/{shared}",
        "home": home,
        "home_names": [".private"],
        "suid": "/usr/bin/su",
    }


def _kept(targets: dict[str, Any]) -> None:
    """Hold something in memory and in the environment, and tell the attempts only how to recognise it."""
    mark, rest = secrets.token_hex(8), secrets.token_hex(16)
    os.environ["KEPT"] = mark + rest
    targets["kept"] = [mark, len(rest), hashlib.sha256(rest.encode()).hexdigest()]


def _descriptors(scene: Scene, stack: ExitStack) -> None:
    """Open what a careless server leaves inheritable: a file with a secret, a socket, a pipe."""
    held = [os.open(scene.targets["file"], os.O_RDONLY), *os.pipe()]
    ours, theirs = socket.socketpair()
    held += [ours.detach(), theirs.detach()]
    for fd in held:
        os.set_inheritable(fd, True)
        stack.callback(os.close, fd)
    scene.descriptors += held


def _sockets(scene: Scene, stack: ExitStack) -> None:
    targets, folder = scene.targets, scene.folder
    targets["abstract"] = f"toolbox-{secrets.token_hex(8)}"
    targets |= {"stream": f"{folder}/stream", "datagram": f"{folder}/datagram"}

    def listen(family: int, kind: int, address: Any) -> socket.socket:
        made = stack.enter_context(socket.socket(family, kind))
        made.bind(address)
        if kind == socket.SOCK_STREAM:
            made.listen(64)
        made.setblocking(False)
        scene.listeners.append(made)
        return made

    unix, stream, datagram = socket.AF_UNIX, socket.SOCK_STREAM, socket.SOCK_DGRAM
    listen(unix, stream, targets["stream"])
    listen(unix, datagram, targets["datagram"])
    listen(unix, stream, "\0" + targets["abstract"])
    listen(unix, datagram, "\0" + targets["abstract"] + "d")
    targets["tcp4"] = listen(socket.AF_INET, stream, ("127.0.0.1", 0)).getsockname()[1]
    targets["tcp6"] = listen(socket.AF_INET6, stream, ("::1", 0)).getsockname()[1]
    targets["udp"] = listen(socket.AF_INET, datagram, ("127.0.0.1", 0)).getsockname()[1]
    listen(socket.AF_INET6, datagram, ("::1", targets["udp"]))


def clear(targets: dict[str, Any]) -> None:
    """Take away what a scene leaves beside its folders, in a world that does not vanish."""
    for place in (f"{top}/{targets['shm']}{ending}" for top in ("/dev/shm", "/tmp") for ending in ("", "-2")):
        os.unlink(place)
    _call((31, 195), _call((29, 194), targets["sysv"], 0, 0), 0, 0)
    _call((71, 187), _call((68, 186), targets["sysv"], 0), 0, 0)
    _call((66, 191), _call((64, 190), targets["sysv"], 0, 0), 0, 0, 0)
    _call((241, 181), targets["queue"].encode())
    _call((250, 219), 9, _call((250, 219), 10, -4, b"user", targets["key"].encode(), 0), -4)


def _kernel_objects(targets: dict[str, Any], secret: str) -> None:
    targets |= {"sysv": secrets.randbelow(1 << 30) + 1, "queue": f"toolbox-{secrets.token_hex(8)}"}
    targets["key"] = f"toolbox-{secrets.token_hex(8)}"
    create = 0o1666
    _call((29, 194), targets["sysv"], 4096, create)
    _call((68, 186), targets["sysv"], create)
    _call((64, 190), targets["sysv"], 1, create)
    # Small ones: what a user's queues may hold together is limited over all namespaces.
    attributes = struct.pack("8q", 0, 1, 64, 0, 0, 0, 0, 0)
    os.close(_call((240, 180), targets["queue"].encode(), os.O_CREAT | os.O_RDWR, 0o666, attributes))
    _call((248, 217), b"user", targets["key"].encode(), secret.encode(), len(secret), -4)


def _processes(scene: Scene, stack: ExitStack) -> None:
    """Start a server with a secret in its environment, memory and arguments, and a victim for each kind of attack."""
    targets = scene.targets
    environment = {"SECRET": targets["secret"], "HEAP_SECRET": os.environ["KEPT"]}
    server = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", SERVER, targets["file"], targets["secret"]],
        stdout=subprocess.PIPE,
        env=environment,
        cwd=scene.folder,
    )
    stack.callback(_end, server)
    assert server.stdout is not None
    targets |= {"victim": server.pid, "address": int(server.stdout.readline()), "victims": {}}
    scene.victims["server"] = server
    for name in KINDS:
        process = subprocess.Popen(["/bin/sleep", "1000"], env=environment, start_new_session=True)
        stack.callback(_end, process)
        scene.victims[name] = process
        targets["victims"][name] = process.pid


def _burn_pids() -> None:
    """Use numbers up, so that a victim's is none of a sandbox's own."""
    while True:
        pid = os.posix_spawn("/bin/true", ["/bin/true"], {})
        os.waitpid(pid, 0)
        if pid > LOWEST_PID:
            return
        for _ in range(min(500, LOWEST_PID - pid + 1)):
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _tree(folder: str) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(top, name)
            seen = os.lstat(path)
            content = Path(path).read_bytes() if stat.S_ISREG(seen.st_mode) else b""
            found[path] = (seen.st_mode, seen.st_uid, seen.st_gid, seen.st_mtime_ns, seen.st_nlink, content)
            with contextlib.suppress(OSError):
                found[path] += tuple(os.listxattr(path, follow_symlinks=False))
    return found


def _differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for path in {*before, *after}:
        if before.get(path) != after.get(path):
            yield path


def _state(pid: int) -> tuple[Any, ...]:
    """Return what others can set of a process."""
    with open(f"/proc/{pid}/oom_score_adj") as score:
        adjustment = score.read()
    io = libc.syscall(31 if ARM else 252, 1, pid)
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    scheduling = os.sched_getscheduler(pid), frozenset(os.sched_getaffinity(pid)), os.getpriority(os.PRIO_PROCESS, pid)
    return adjustment, io, limits, scheduling


def _reached(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_DGRAM:
            return bool(listener.recv(1))
        listener.accept()[0].close()
    except OSError:
        return False
    return True


def _call(number: tuple[int, int], *arguments: Any) -> int:
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(libc.syscall(ctypes.c_long(number[ARM]), *given))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"system call {number[ARM]}")
    return result


def own_terminal() -> None:
    """Give this process a session of its own with a controlling terminal."""
    os.setsid()
    _, theirs = os.openpty()
    fcntl.ioctl(theirs, 0x540E, 0)  # TIOCSCTTY


def stay(top: str, mount: str) -> None:
    """Lay a scene out right here: print what attempts aim at, wait for a line, print what they did, and clear up.

    A program of its own (test_containers.py), as an ordinary user: the one that attempts are in a container.
    """
    with lay_out("scene", top=top, home=f"{top}/operator", mount=mount) as scene:
        try:
            print(json.dumps(scene.targets), flush=True)
            sys.stdin.readline()
            print(json.dumps(scene.traces()), flush=True)
        finally:
            clear(scene.targets)
