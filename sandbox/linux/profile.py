"""The filter of seccomp.py as the engines of containers read it: by names, in JSON.

An engine has a filter of its own, which this one replaces: podman's lets a program make user namespaces, and open
sockets of families that no network namespace holds (vsock, which leads out of a virtual machine). As an engine's
does, it names what is allowed, so that what it or the engine does not know yet is not.
"""

import json
from collections.abc import Collection, Iterator
from typing import Any

from . import seccomp

ALLOWED = (
    "access", "alarm", "arch_prctl", "brk", "cachestat", "capget", "capset", "chdir", "chmod", "chown", "clock_getres",
    "clock_gettime", "clock_nanosleep", "close", "close_range", "copy_file_range", "creat", "dup", "dup2", "dup3",
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd", "eventfd2",
    "execve", "execveat", "exit", "exit_group", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod",
    "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr", "file_getattr", "file_setattr",
    "flistxattr", "flock", "fork", "fremovexattr", "fstat", "fstatfs", "fsync", "ftruncate", "futex", "futex_requeue",
    "futex_wait", "futex_waitv", "futex_wake", "futimesat", "get_mempolicy", "get_robust_list", "get_thread_area",
    "getcpu", "getcwd", "getdents", "getdents64", "getegid", "geteuid", "getgid", "getgroups", "getitimer",
    "getpeername", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getrandom", "getresgid", "getresuid",
    "getrlimit", "getrusage", "getsid", "getsockname", "getsockopt", "gettid", "gettimeofday", "getuid", "getxattr",
    "getxattrat", "inotify_rm_watch", "io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_submit",
    "ioprio_get", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "lchown", "lgetxattr",
    "link", "linkat", "listxattr", "listxattrat", "llistxattr", "lremovexattr", "lseek", "lsm_get_self_attr",
    "lsm_list_modules", "lsm_set_self_attr", "lstat", "madvise", "map_shadow_stack", "membarrier", "mincore", "mkdir",
    "mkdirat", "mknod", "mknodat", "mlock", "mlock2", "mlockall", "mmap", "mprotect", "mq_getsetattr", "mq_notify",
    "mq_timedreceive", "mq_timedsend", "mremap", "mseal", "msync", "munlock", "munlockall", "munmap", "nanosleep",
    "newfstatat", "open", "openat", "openat2", "pause", "pidfd_open", "pidfd_send_signal", "pipe", "pipe2",
    "pkey_alloc", "pkey_free", "pkey_mprotect", "poll", "ppoll", "prctl", "pread64", "preadv", "preadv2", "pselect6",
    "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv", "recvfrom", "recvmsg",
    "remap_file_pages", "removexattr", "removexattrat", "rename", "renameat", "renameat2", "restart_syscall", "rmdir",
    "rseq", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend",
    "rt_sigtimedwait", "rt_tgsigqueueinfo", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
    "sched_getattr", "sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_yield", "seccomp",
    "select", "sendfile", "sendmsg", "sendto", "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid",
    "setfsuid", "setgid", "setgroups", "setitimer", "setpgid", "setregid", "setresgid", "setresuid", "setreuid",
    "setsid", "setsockopt", "setuid", "shutdown", "sigaltstack", "signalfd", "signalfd4", "splice", "stat", "statfs",
    "statx", "symlink", "symlinkat", "sync", "sync_file_range", "sync_file_range2", "syncfs", "sysinfo", "tee",
    "tgkill", "time", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime",
    "timerfd_create", "timerfd_gettime", "timerfd_settime", "times", "tkill", "truncate", "umask", "uname", "unlink",
    "unlinkat", "utime", "utimensat", "utimes", "vfork", "vmsplice", "wait4", "waitid", "write", "writev",
)  # fmt: skip
"""All calls up to seccomp.NEWEST that seccomp.py lets through, of both architectures, whatever their arguments.

fcntl too, and of ioctl what concerns files: files of a container are its image's, not the host's."""

_WORD = 0xFFFFFFFF
_ALLOW, _ERROR = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"


def build(*, network: bool) -> str:
    """Return the profile. network=True leaves sockets of IPv4 and IPv6 and what serves on them."""
    rules = [
        {"names": [*ALLOWED, *(seccomp.SERVES if network else ())], "action": _ALLOW},
        {"names": [*seccomp.ABSENT], "action": _ERROR, "errnoRet": seccomp.ENOSYS},
        {"names": [*seccomp.SETS_ATTRIBUTES], "action": _ERROR, "errnoRet": seccomp.EOPNOTSUPP},
        *_judged_by_arguments(),
    ]
    if network:
        rules += [_allow("socket", _equal(0, family)) for family in (seccomp.AF_INET, seccomp.AF_INET6)]
    else:
        rules += [{"names": ["socket"], "action": _ERROR, "errnoRet": seccomp.EAFNOSUPPORT}]
    # No other architecture below either: int 0x80 reaches other numbers.
    architectures: list[dict[str, Any]] = [
        {"architecture": name, "subArchitectures": []} for name in ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")
    ]
    profile = {"defaultAction": _ERROR, "defaultErrnoRet": seccomp.EPERM, "archMap": architectures, "syscalls": rules}
    return json.dumps(profile)


def _judged_by_arguments() -> Iterator[dict[str, Any]]:
    yield _allow("clone", _masked(0, seccomp.NEW_NAMESPACES, 0))
    for kind in (seccomp.STREAM, seccomp.SEQPACKET):
        yield _allow("socketpair", _equal(0, seccomp.AF_UNIX), _masked(1, seccomp.TYPE_MASK, kind))
    for call in ("sched_setscheduler", "sched_setparam", "sched_setattr"):
        yield _allow(call, _equal(0, 0))
    for call in ("setpriority", "ioprio_set"):
        yield _allow(call, _equal(0, 1 if call == "ioprio_set" else 0), _equal(1, 0))
    for persona in (0, _WORD):
        yield _allow("personality", _equal(0, persona))
    for mask, rest in all_but(seccomp.TERMINAL_WRITES):
        yield _allow("ioctl", _masked(1, mask, rest))
    for mask, rest in all_but([seccomp.EVERYBODY]):
        yield _allow("kill", _masked(0, mask, rest))
    yield _allow("prlimit64", _equal(0, 0), _equal(2, 0))
    for mask, rest in all_but([seccomp.RLIMIT_CORE]):
        yield _allow("prlimit64", _equal(0, 0), _masked(1, mask, rest))
        yield _allow("setrlimit", _masked(0, mask, rest))


def all_but(values: Collection[int], mask: int = 0, rest: int = 0, bits: int = 32) -> Iterator[tuple[int, int]]:
    """Yield (mask, rest) such that `word & mask == rest` for one of them, unless the word is one of the values.

    Engines know no rule for "none of these", and none for the low 32 bits, which are all that the kernel looks at,
    but a masked one. From (mask, rest), which leaves so many bits, it goes on in halves until one holds no value.
    """
    within = [value for value in values if value & mask == rest]
    if not within:
        yield mask, rest
    elif bits:
        bit = 1 << (bits - 1)
        for half in (rest, rest | bit):
            yield from all_but(within, mask | bit, half, bits - 1)


def _allow(call: str, *arguments: dict[str, Any]) -> dict[str, Any]:
    return {"names": [call], "action": _ALLOW, "args": list(arguments)}


def _equal(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}


def _masked(index: int, mask: int, rest: int) -> dict[str, Any]:
    return {"index": index, "value": mask, "valueTwo": rest, "op": "SCMP_CMP_MASKED_EQ"}
