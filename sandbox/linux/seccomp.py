"""The system calls that a sandboxed program does not get, as a seccomp filter.

A deny list of what reaches beyond the program itself, plus: whatever is newer than the newest call judged here
does not exist. Numbers are (x86_64, aarch64) of the kernel's syscall tables (syscall_64.tbl and the generic
table), up to Linux 6.18; None where the architecture has no such call.
"""

import ctypes
import os
from collections.abc import Mapping
from types import MappingProxyType

from .bpf import Filter, error
from .syscalls import PR_SET_NO_NEW_PRIVS, prctl

X86_64, AARCH64 = 0xC000003E, 0xC00000B7

NEWEST = 469
"""The last call judged here (file_setattr, Linux 6.17)."""

EPERM, ENOSYS, EOPNOTSUPP, EAFNOSUPPORT = 1, 38, 95, 97

X32 = 0x40000000
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

_Table = Mapping[str, tuple[int | None, int | None]]

SERVES: _Table = MappingProxyType(
    {
        "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242),
        "sendmmsg": (307, 269), "recvmmsg": (299, 243),
    }
)  # fmt: skip
"""Denied (EPERM) without a network. Streams that a socketpair made need none of them."""

DENIED: _Table = MappingProxyType(
    {
        # The machine and its kernel.
        "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
        "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224),
        "swapoff": (168, 225), "acct": (163, 89), "settimeofday": (164, 170), "clock_settime": (227, 112),
        "clock_adjtime": (305, 266), "adjtimex": (159, 171), "iopl": (172, None), "ioperm": (173, None),
        "syslog": (103, 116), "sethostname": (170, 161), "setdomainname": (171, 162), "quotactl": (179, 60),
        "quotactl_fd": (443, 443), "vhangup": (153, 58), "uselib": (134, None), "modify_ldt": (154, None),
        "_sysctl": (156, None), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42), "sysfs": (139, None),
        "ustat": (136, None),
        # Mounts and roots.
        "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
        "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
        "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "statmount": (457, 457),
        "listmount": (458, 458), "open_tree_attr": (467, 467),
        # Namespaces.
        "unshare": (272, 97), "setns": (308, 268),
        # Other processes.
        "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
        "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
        "perf_event_open": (298, 241), "bpf": (321, 280), "userfaultfd": (323, 282), "mbind": (237, 235),
        "set_mempolicy": (238, 237), "migrate_pages": (256, 238), "move_pages": (279, 239),
        "set_mempolicy_home_node": (450, 450),
        # Its own, to stay on the processors it was given; sched_getaffinity tells which.
        "sched_setaffinity": (203, 122),
        # Rings do their work past this filter.
        "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
        # Keys, file handles, watching.
        "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "name_to_handle_at": (303, 264),
        "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
        "inotify_add_watch": (254, 27),
        # Message queues, semaphores and shared memory: Landlock does not know them.
        "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "shmdt": (67, 197), "semget": (64, 190),
        "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186),
        "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180),
        "mq_unlink": (241, 181),
        # Few of them, for the whole machine or for all that its user runs.
        "io_setup": (206, 0), "inotify_init": (253, None), "inotify_init1": (294, 26),
    }
)  # fmt: skip
"""Denied with EPERM."""

ABSENT: _Table = MappingProxyType({"clone3": (435, 435), "memfd_create": (319, 279), "memfd_secret": (447, 447)})
"""Answered ENOSYS, upon which libraries fall back to what can be judged. Memory of a memfd escapes every limit."""

PRETENDED: _Table = MappingProxyType(
    {
        "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
        "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5),
        "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15),
        "fremovexattr": (199, 16), "setxattrat": (463, 463), "removexattrat": (466, 466), "utime": (132, None),
        "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88), "file_setattr": (469, 469),
    }
)  # fmt: skip
"""Changes of metadata, which Landlock does not stop: without a mount namespace they seem to succeed."""

SETS_ATTRIBUTES = ("setxattr", "lsetxattr", "fsetxattr", "setxattrat")
"""EOPNOTSUPP with a mount namespace: 64 KiB of the kernel's memory a file, which counts neither as memory nor as disk."""

ATTRIBUTES: _Table = MappingProxyType(
    {
        "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10), "listxattr": (194, 11),
        "llistxattr": (195, 12), "flistxattr": (196, 13), "getxattrat": (464, 464), "listxattrat": (465, 465),
    }
)  # fmt: skip
"""Extended attributes: without a mount namespace, EOPNOTSUPP."""

SELF_ONLY: _Table = MappingProxyType(
    {
        "prlimit64": (302, 261), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
        "sched_setattr": (314, 274),
    }
)  # fmt: skip
"""Calls whose first argument must be 0, the caller itself."""

_CLONE = (56, 220)
_SOCKET = (41, 198)
_SOCKETPAIR = (53, 199)
_IOCTL = (16, 29)
_SETPRIORITY = (141, 140)
_IOPRIO_SET = (251, 30)
_PERSONALITY = (135, 92)
_KILL = (62, 129)
_FCNTL = (72, 25)
_FORKS = ((57, None), (58, None))
_SETRLIMIT = (160, 164)
_PRLIMIT = (302, 261)
_OPENAT2 = (437, 437)

NEW_NAMESPACES = 0x7E020000  # CLONE_NEW{CGROUP,UTS,IPC,USER,PID,NET} and CLONE_NEWNS
TERMINAL_WRITES = (0x5412, 0x541C, 0x5423, 0x541D)  # TIOCSTI TIOCLINUX TIOCSETD TIOCCONS
FILE_FLAGS = (
    *(0x40086602, 0x40046602, 0x40087602, 0x40047602),  # FS_IOC_SETFLAGS FS_IOC_SETVERSION, for both widths
    *(0x401C5820, 0x40806685),  # FS_IOC_FSSETXATTR FS_IOC_ENABLE_VERITY
    *(0x800C6613, 0xC0506617, 0xC0406618),  # FS_IOC_{SET_ENCRYPTION_POLICY,ADD_ENCRYPTION_KEY,REMOVE_ENCRYPTION_KEY}
)
"""Metadata that an owner changes through a file that is open for reading, and keys of its file system."""
SEEN_BY_OTHERS = (1024, 1026)
"""F_SETLEASE and F_NOTIFY: of a file that is open for reading, one keeps writers waiting, the other watches them."""
A_THREAD = 0x10000  # CLONE_THREAD
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
STREAM, SEQPACKET, TYPE_MASK = 1, 5, 0xF
EVERYBODY = 0xFFFFFFFF
RLIMIT_CORE = 4
_SET_ID, _SET_USER_ID = 0o6000, 0o4000

_CREATES: Mapping[str, tuple[int | None, int | None, int]] = MappingProxyType(
    {
        "open": (2, None, 2), "creat": (85, None, 1), "openat": (257, 56, 3), "mknod": (133, None, 1),
        "mknodat": (259, 33, 2), "mkdir": (83, None, 1), "mkdirat": (258, 34, 2),
    }
)  # fmt: skip
"""Calls that make files, with the index of the argument that holds the mode."""

_CHANGES_MODE: Mapping[str, tuple[int | None, int | None, int]] = MappingProxyType(
    {"chmod": (90, None, 1), "fchmod": (91, 52, 1), "fchmodat": (268, 53, 2), "fchmodat2": (452, 452, 2)}
)
"""Calls that change the mode of a file, likewise."""


def architecture() -> int | None:
    """Return the seccomp name of this machine's architecture, None when there is no table for it."""
    return {"x86_64": X86_64, "aarch64": AARCH64}.get(os.uname().machine)


def build(arch: int, *, metadata: bool, network: bool, processes: bool = True, set_user_id: bool = True) -> bytes:
    """Return the filter for an architecture.

    metadata=False takes changes of file metadata, set-id files and extended attributes away, for programs that
    share the host's mounts. network=True leaves sockets of IPv4 and IPv6 and what serves on them.
    processes=False leaves threads alone. set_user_id=False takes away what metadata leaves: to make programs run as
    their owner.
    """
    column = 0 if arch == X86_64 else 1

    def numbers(table: _Table) -> list[int]:
        return [number for row in table.values() if (number := row[column]) is not None]

    rules = Filter(arch)
    if arch == X86_64:
        rules.answer_from(X32, error(ENOSYS))
    rules.answer_from(NEWEST + 1, error(ENOSYS))
    denied = numbers(DENIED)
    rules.answer(denied if network else denied + numbers(SERVES), error(EPERM))
    rules.answer(numbers(ABSENT), error(ENOSYS))
    if metadata:
        rules.answer(numbers({name: PRETENDED[name] for name in SETS_ATTRIBUTES}), error(EOPNOTSUPP))
    else:
        rules.answer(numbers(PRETENDED), error(0))
        rules.answer(numbers(ATTRIBUTES), error(EOPNOTSUPP))
    if not metadata or not set_user_id:
        modes = (*_CREATES.values(), *(_CHANGES_MODE.values() if metadata else ()))
        for number, index in [(number, row[2]) for row in modes if (number := row[column]) is not None]:
            rules.never_with_bits(number, index, _SET_USER_ID if metadata else _SET_ID, error(EPERM))
        # Its mode is where no filter sees it, and everybody has openat to fall back to.
        rules.answer([_OPENAT2[column]], error(ENOSYS))
    rules.never_with_bits(_CLONE[column], 0, NEW_NAMESPACES, error(EPERM))
    if not processes:
        rules.answer([number for row in _FORKS if (number := row[column]) is not None], error(EPERM))
        rules.only_with(_CLONE[column], 0, (A_THREAD,), error(EPERM), mask=A_THREAD)
    families = (AF_INET, AF_INET6) if network else ()
    rules.only_with(_SOCKET[column], 0, families, error(EAFNOSUPPORT))
    # A pair of datagram sockets can be reconnected to any datagram socket that has a path: /dev/log, journald.
    rules.only_with(_SOCKETPAIR[column], 0, (AF_UNIX,), error(EAFNOSUPPORT))
    rules.only_with(_SOCKETPAIR[column], 1, (STREAM, SEQPACKET), error(EAFNOSUPPORT), mask=TYPE_MASK)
    rules.never_with(_IOCTL[column], 1, (*TERMINAL_WRITES, *FILE_FLAGS), error(EPERM))
    rules.never_with(_FCNTL[column], 1, SEEN_BY_OTHERS, error(EPERM))
    for number in numbers(SELF_ONLY):
        rules.only_with(number, 0, (0,), error(EPERM))
    for number, whom in ((_SETPRIORITY[column], 0), (_IOPRIO_SET[column], 1)):
        rules.only_with(number, 0, (whom,), error(EPERM))
        rules.only_with(number, 1, (0,), error(EPERM))
    rules.only_with(_PERSONALITY[column], 0, (0, 0xFFFFFFFF), error(EPERM))
    rules.never_with(_KILL[column], 0, (EVERYBODY,), error(EPERM))
    # At a limit of 0 the kernel starts the host's handler of core dumps where there is one; rlimits sets 1.
    rules.never_with(_SETRLIMIT[column], 0, (RLIMIT_CORE,), error(EPERM))
    rules.only_reads(_PRLIMIT[column], 1, RLIMIT_CORE, 2, error(EPERM))
    return rules.program()


def install(program: bytes) -> None:
    """Put the calling thread and all it starts under a filter, for good. Raises OSError."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    code = ctypes.create_string_buffer(program, len(program))
    given = Program(len(program) // 8, ctypes.cast(code, ctypes.c_void_p))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(given))
