"""What the operating system refuses, in the words of an answer."""

import errno
import os

from .errors import Code, ToolError


def refusal(error: OSError, shown: str) -> ToolError:
    """Say in the client's words what the system refused. shown: the place, as results name it."""
    match error.errno:
        case errno.ENOENT:
            return ToolError(Code.NOT_FOUND, f"there is no {shown}")
        case errno.ENOTDIR:
            return ToolError(Code.NOT_A_DIRECTORY, f"a part of {shown} is not a folder")
        case errno.EXDEV:
            return ToolError(Code.PATH_DENIED, f"{shown} leads outside the allowed folders")
        case errno.ELOOP:
            return ToolError(Code.PATH_DENIED, f"{shown} leads through a link that is not allowed")
        case errno.EACCES | errno.EPERM:
            return ToolError(Code.PATH_DENIED, f"the system does not permit access to {shown}")
        case errno.EROFS:
            return ToolError(Code.PATH_DENIED, f"{shown} is on a read-only file system")
        case errno.ENAMETOOLONG:
            return ToolError(Code.PATH_DENIED, f"the name of {shown} is too long for the system")
        case errno.ENOSPC | errno.EDQUOT:
            return ToolError(Code.REFUSED, f"the disk is full, {shown} is as it was")
        case errno.EFBIG:
            return ToolError(Code.REFUSED, f"the system does not allow so large a file, {shown} is as it was")
        case _:
            return ToolError(Code.PATH_DENIED, f"the system refused {shown}: {os.strerror(error.errno or 0)}")
