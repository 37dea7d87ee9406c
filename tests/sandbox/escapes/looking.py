"""What the world finds when it looks around, before anything is tried in it. Returns what is wrong."""

import contextlib
import ctypes
import errno
import os
import struct

DEVICES = {"/null", "/zero", "/full", "/random", "/urandom", "/tty"}
"""Devices of the host that bubblewrap shows; nothing that is written to them is kept."""

FORBIDDEN = ("/etc", "/usr", "/usr/bin", "/usr/lib", "/bin", "/var", "/work", "/boot", "/")
EXPECTED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT}
MOUNT_SETATTR = 442
MOUNT_RDONLY = 1
OWN = {"tmpfs", "proc", "devpts", "mqueue"}


def problems(identity: str) -> list[str]:
    """Return every way in which this is not the world that attempts may run in; empty is good."""
    found = [*_identity(identity), *_mounts(), *_writing()]
    # Only where nothing is wrong so far: if this succeeded, a read-only mount would be writable.
    return found or _locked(identity)


def mounts() -> list[dict[str, str]]:
    """Return the mount table."""
    rows = []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            left, right = line.rstrip("\n").split(" - ")
            fields = left.split()
            kind = right.split()[0]
            rows.append({"place": fields[4], "root": fields[3], "flags": fields[5], "kind": kind})
    return rows


def of_the_host(row: dict[str, str]) -> bool:
    """Return True if a mount shows a file system that the world did not make itself."""
    return not (row["root"] == "/" and row["kind"] in OWN)


def _identity(identity: str) -> list[str]:
    found = []
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    if status["NoNewPrivs"] != "1":
        found.append("new privileges are possible")
    with open("/proc/self/uid_map") as file:
        rows = [line.split() for line in file]
    if len(rows) != 1 or rows[0][2] != "1":
        found.append(f"the user namespace maps {rows}")
    if os.access("/proc/sys/kernel/core_pattern", os.W_OK):
        found.append("this is the system's root")
    capable = int(status["CapEff"], 16) != 0
    if (os.getuid() == 0, capable) != ((True, True) if identity == "mapped root" else (False, False)):
        found.append(f"uid {os.getuid()} with capabilities {status['CapEff']} is not a {identity}")
    return found


def _mounts() -> list[str]:
    found = []
    for row in mounts():
        writable = "ro" not in row["flags"].split(",")
        device = row["kind"] == "devtmpfs" and row["root"] in DEVICES
        if of_the_host(row) and writable and not device:
            found.append(f"{row['place']} shows {row['root']} of a {row['kind']} of the host, writable")
        if of_the_host(row) and row["root"] == "/" and not device:
            found.append(f"{row['place']} is the root of a file system of the host")
    return found


def _writing() -> list[str]:
    found = []
    for folder in FORBIDDEN:
        try:
            fd = os.open(f"{folder}/toolbox-escape", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except OSError as failure:
            if failure.errno not in EXPECTED:
                found.append(f"writing to {folder}: {failure}")
        else:
            os.close(fd)
            found.append(f"{folder} can be written")
    return found


def _locked(identity: str) -> list[str]:
    """Try to make each mount of the host writable, without writing to it."""
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = struct.pack("=4Q", 0, MOUNT_RDONLY, 0, 0)
    found = []
    if identity == "mapped root":
        # What makes a mount writable is tried on one of the world's own first: it has to work there.
        read_only = struct.pack("=4Q", MOUNT_RDONLY, 0, 0, 0)
        for given in (read_only, attributes):
            if libc.syscall(MOUNT_SETATTR, -100, b"/home", 0, given, len(given)):
                found.append("the world's own mounts cannot be changed, so this check says nothing")
    for row in mounts():
        if not of_the_host(row) or "ro" not in row["flags"].split(","):
            continue
        place = row["place"].encode().decode("unicode_escape").encode()
        with contextlib.suppress(OSError):
            if libc.syscall(MOUNT_SETATTR, -100, place, 0, attributes, len(attributes)) == 0:
                found.append(f"{row['place']} can be made writable")
        if libc.mount(None, place, None, ctypes.c_ulong(32 | 4096), None) == 0:
            found.append(f"{row['place']} can be remounted")
    return found
