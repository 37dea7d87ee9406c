"""What a file keeps besides its content when another file takes its place: owner, group, extended attributes."""

import os
from contextlib import suppress

_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_access")
"""Extended attributes that follow to the new content. Capabilities do not: the kernel drops them on a write too."""


Owner = tuple[int, int]
"""Ids of the user and the group."""
Attributes = dict[str, bytes]
"""Extended attributes by name."""


def keep_owner(fd: int, owner: Owner) -> bool:
    """Give a file the owner and the group of another, or only the group, and tell whether it has the group."""
    now = os.fstat(fd)
    user, group = owner
    if (now.st_uid, now.st_gid) == owner:
        return True
    # Who may not give a file away may still leave it to the group that shares it.
    for given in (user, -1):
        with suppress(OSError):
            os.fchown(fd, given, group)
            return True
    return now.st_gid == group


def keep_owner_of_link(dir_fd: int, name: str, owner: Owner) -> None:
    """Give a link the owner and the group of another, as far as the system allows."""
    with suppress(OSError):
        os.chown(name, *owner, dir_fd=dir_fd, follow_symlinks=False)


def owner_of(status: os.stat_result) -> Owner:
    """Return to whom something belongs."""
    return status.st_uid, status.st_gid


def permitted(mode: int, *, group_kept: bool) -> int:
    """Return the permission bits of what takes a file's place: no set-id bits, as the kernel does on a write.

    Without its group, another group gets no more than everybody has.
    """
    mode &= 0o1777
    return mode if group_kept else mode & (~0o070 | (mode & 0o007) << 3)


def attributes_of(fd: int) -> Attributes:
    """Return the extended attributes of an open file that follow its content, as far as the system tells."""
    found: Attributes = {}
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(fd):
                if name.startswith(_KEPT_ATTRIBUTES):
                    with suppress(OSError):
                        found[name] = os.getxattr(fd, name)
    return found


def give_attributes(fd: int, attributes: Attributes) -> None:
    """Give an open file extended attributes, as far as the system allows."""
    for name, value in attributes.items():
        with suppress(OSError):
            os.setxattr(fd, name, value)


def keep_attributes(fd: int, old: int) -> None:
    """Copy the extended attributes of an open file to another, as far as the system allows."""
    give_attributes(fd, attributes_of(old))
