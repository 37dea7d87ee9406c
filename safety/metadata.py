"""What a file keeps besides its content when another file takes its place: owner, group, extended attributes."""

import os
from contextlib import suppress

_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_access")
"""Extended attributes that follow to the new content. Capabilities do not: the kernel drops them on a write too."""


def keep_owner(fd: int, status: os.stat_result) -> bool:
    """Give a file the owner and the group of another, or only the group, and tell whether it has the group."""
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) == (status.st_uid, status.st_gid):
        return True
    # Who may not give a file away may still leave it to the group that shares it.
    for owner in (status.st_uid, -1):
        with suppress(OSError):
            os.fchown(fd, owner, status.st_gid)
            return True
    return now.st_gid == status.st_gid


def permitted(mode: int, *, group_kept: bool) -> int:
    """Return the permission bits of what takes a file's place: no set-id bits, as the kernel does on a write.

    Without its group, another group gets no more than everybody has.
    """
    mode &= 0o1777
    return mode if group_kept else mode & (~0o070 | (mode & 0o007) << 3)


def keep_attributes(fd: int, dir_fd: int, name: str) -> None:
    """Copy the extended attributes of a file to an open one, as far as the system allows."""
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        old = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
        try:
            for attribute in os.listxattr(old):
                if attribute.startswith(_KEPT_ATTRIBUTES):
                    with suppress(OSError):
                        os.setxattr(fd, attribute, os.getxattr(old, attribute))
        finally:
            os.close(old)
