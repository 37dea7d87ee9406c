"""Namespaces of a sandboxed program, and the small file system it sees."""

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable

from .syscalls import syscall

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000

NOSUID, NODEV, NOEXEC, BIND, RECURSIVE, PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_DETACH = 2
_READ_ONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_NOEXEC = 1, 2, 4, 8
_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_STAGE = "/tmp"  # noqa: S108 - a folder that every system has; what is mounted there is seen by no one else
_HOST = "/.host"
_DEVICES = ("null", "zero", "full", "random", "urandom")
_DEVICE_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)
_PROC_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs")
PROC_HIDDEN = ("keys", "key-users", "interrupts")
"""Entries of /proc that no namespace makes a program's own: names of its user's keys, and when somebody types."""

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave the caller's namespaces of these kinds. Raises OSError where the system does not allow it."""
    if _libc.unshare(flags):
        raise _failure("unshare")


def map_user(outer: int, group: int, inner: int) -> None:
    """Make the caller, alone in a fresh user namespace, be user and group `inner` there."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{inner} {outer} 1"), ("gid_map", f"{inner} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount, as mount(2). Raises OSError."""
    given = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    if _libc.mount(given[0], given[1], given[2], ctypes.c_ulong(flags), given[3]):
        raise _failure(f"mount {target}")


def private() -> None:
    """Keep mounts made from here on out of every other mount namespace."""
    mount(None, "/", None, RECURSIVE | PRIVATE)


def build_root(
    read: Iterable[str],
    write: Iterable[str],
    links: Iterable[tuple[str, str]],
    *,
    protected: Iterable[str] = (),
    disk: int,
    shared: int,
    inodes: int,
) -> None:
    """Move the caller, alone in a fresh mount namespace and pid 1 of a pid namespace, into a root of its own.

    read and write: folders and files of the host that are seen at their own places; what is missing is left out.
    links: (place, target). protected: existing places below `write` that are only read. disk, shared: bytes of /tmp and /dev/shm; inodes: how many files /tmp holds.
    """
    private()
    every = [*((path, True) for path in read), *((path, False) for path in write)]
    shown = [(os.path.realpath(path), read_only) for path, read_only in every]
    links = [*links, *((path, os.readlink(path)) for path, _ in every if os.path.islink(path))]
    _enter_new_root()
    for place, target in links:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if not os.path.lexists(place):
            os.symlink(target, place)
    for name in ("/dev", "/proc", "/tmp"):  # noqa: S108 - the sandbox's own
        os.mkdir(name)
    _devices(shared)
    _processes()
    mount("tmpfs", "/tmp", "tmpfs", NOSUID | NODEV, f"size={disk},mode=1777,nr_inodes={inodes}")  # noqa: S108
    seen: set[str] = set()
    for path, read_only in sorted(shown):
        # What is below a folder that is seen already needs a mount of its own only to be written.
        if not read_only or not any(path == above or path.startswith(above + "/") for above in seen):
            _show(_HOST + path, path, _ATTR_NOSUID | _ATTR_NODEV | (_READ_ONLY if read_only else 0))
            seen.add(path)
    for path in protected:
        # One that has gone meanwhile has another name, under which it would be written.
        if not os.path.lexists(_HOST + path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        _show(_HOST + path, path, _ATTR_NOSUID | _ATTR_NODEV | _READ_ONLY)
    _leave_old_root()


def _enter_new_root() -> None:
    """Be in an empty root, with the one of before in a folder of it."""
    mount("tmpfs", _STAGE, "tmpfs", NOSUID | NODEV, "size=1m,mode=755,nr_inodes=4096")
    os.mkdir(_STAGE + _HOST)
    syscall(_PIVOT_ROOT[os.uname().machine], _STAGE.encode(), (_STAGE + _HOST).encode())
    os.chdir("/")


def _leave_old_root() -> None:
    if _libc.umount2(_HOST.encode(), _DETACH):
        raise _failure("umount of the host's root")
    os.rmdir(_HOST)
    _attributes("/", _READ_ONLY | _ATTR_NOSUID | _ATTR_NODEV)


def uncover(paths: Iterable[str], uid: int) -> None:
    """In a private mount namespace, let a user reach paths below folders that are closed to it.

    Each closed folder is covered by an empty one that holds the paths alone.
    """
    closed: dict[str, list[tuple[str, int]]] = {}
    for path in paths:
        folder = barrier(path, uid)
        if folder is not None and os.path.exists(path):
            closed.setdefault(folder, []).append((path, os.open(path, os.O_PATH | os.O_CLOEXEC)))
    for folder, held in closed.items():
        mount("tmpfs", folder, "tmpfs", NOSUID | NODEV, "size=1m,mode=755,nr_inodes=4096")
        for path, place in sorted(held):
            _prepare(path, stat.S_ISDIR(os.fstat(place).st_mode))
            mount(f"/proc/self/fd/{place}", path, None, BIND | RECURSIVE)
            os.close(place)


def barrier(path: str, uid: int) -> str | None:
    """Return the topmost folder above path that uid may not enter."""
    parts = path.strip("/").split("/")
    for count in range(1, len(parts)):
        folder = "/" + "/".join(parts[:count])
        try:
            seen = os.stat(folder)
        except OSError:
            return None
        if not seen.st_mode & (stat.S_IXUSR if seen.st_uid == uid else stat.S_IXOTH):
            return folder
    return None


def _processes() -> None:
    mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
    for name in _PROC_READ_ONLY:
        path = f"/proc/{name}"
        if os.path.exists(path):
            mount(path, path, None, BIND | RECURSIVE)
            _attributes(path, _READ_ONLY | _ATTR_NOSUID, recursive=True)
    for name in PROC_HIDDEN:
        if os.path.exists(f"/proc/{name}"):
            mount(f"{_HOST}/dev/null", f"/proc/{name}", None, BIND)


def _devices(shared: int) -> None:
    mount("tmpfs", "/dev", "tmpfs", NOSUID, "size=64k,mode=755,nr_inodes=64")
    for name in _DEVICES:
        path = f"/dev/{name}"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        mount(_HOST + path, path, None, BIND)
    for name, target in _DEVICE_LINKS:
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/shm")  # noqa: S108
    _attributes("/dev", _READ_ONLY | _ATTR_NOSUID | _ATTR_NOEXEC)
    mount("tmpfs", "/dev/shm", "tmpfs", NOSUID | NODEV | NOEXEC, f"size={shared},mode=1777,nr_inodes=1024")  # noqa: S108


def _show(source: str, place: str, attributes: int) -> None:
    if not os.path.exists(source):
        return
    _prepare(place, os.path.isdir(source))
    mount(source, place, None, BIND | RECURSIVE)
    _attributes(place, attributes, recursive=True)


def _prepare(place: str, folder: bool) -> None:
    os.makedirs(place if folder else os.path.dirname(place), mode=0o755, exist_ok=True)
    if not folder and not os.path.lexists(place):
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))


def _attributes(path: str, attributes: int, *, recursive: bool = False) -> None:
    """Set mount attributes (Linux 5.12)."""
    given = struct.pack("=4Q", attributes, 0, 0, 0)
    syscall(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), _AT_RECURSIVE if recursive else 0, given, len(given))


def _failure(what: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), what)
