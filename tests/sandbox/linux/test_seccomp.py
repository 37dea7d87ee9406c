"""The filter, on a simulator, for both architectures."""

import re
from pathlib import Path

import pytest

from tests.sandbox.linux import bpf_simulator as simulator
from tests.tables import each_row
from toolbox_mcp.sandbox.linux import seccomp
from toolbox_mcp.sandbox.linux.bpf import ALLOW, KILL_PROCESS, error
from toolbox_mcp.sandbox.linux.seccomp import AARCH64, X86_64

ARCHES = {"x86_64": (X86_64, 0), "aarch64": (AARCH64, 1)}
EPERM, ENOSYS, NOT_SUPPORTED, FAMILY = error(1), error(38), error(95), error(97)

# What programs live on. Numbers from the syscall tables, (x86_64, aarch64).
ORDINARY = {
    "read": (0, 63), "write": (1, 64), "openat": (257, 56), "close": (3, 57), "mmap": (9, 222), "brk": (12, 214),
    "execve": (59, 221), "exit_group": (231, 94), "futex": (202, 98), "getrandom": (318, 278), "wait4": (61, 260),
    "pipe2": (293, 59), "unlinkat": (263, 35), "renameat2": (316, 276), "statx": (332, 291), "rseq": (334, 293),
    "set_robust_list": (273, 99), "epoll_pwait": (281, 22), "sendmsg": (46, 211), "recvmsg": (47, 212),
    "sched_getaffinity": (204, 123), "prctl": (157, 167), "close_range": (436, 436), "faccessat2": (439, 439),
}  # fmt: skip


@pytest.fixture(params=ARCHES)
def arch(request):
    return ARCHES[request.param]


def judge(arch, number, *arguments, **build):
    program = seccomp.build(arch[0], **{"metadata": True, "network": False} | build)
    return simulator.run(program, arch[0], number, arguments)


def rows(table, column):
    return [(name, row[column]) for name, row in table.items() if row[column] is not None]


def test_calls_of_another_architecture_kill(arch):
    program = seccomp.build(arch[0], metadata=True, network=False)
    for other in (0x40000003, 0x40000028, AARCH64 if arch[0] == X86_64 else X86_64, 0):
        assert simulator.run(program, other, 1) == KILL_PROCESS


def test_the_x32_calls_do_not_exist():
    for number in (0, 1, 59, 101, 165, 512, 547):
        assert judge(ARCHES["x86_64"], 0x40000000 | number) == ENOSYS


@each_row("metadata", [True, False])
@each_row("network", [True, False])
def test_what_programs_live_on_is_allowed(arch, metadata, network):
    for name, row in ORDINARY.items():
        assert judge(arch, row[arch[1]], metadata=metadata, network=network) == ALLOW, name


def test_each_denied_call_is_denied(arch):
    for metadata in (True, False):
        for name, number in rows(seccomp.DENIED, arch[1]):
            assert judge(arch, number, metadata=metadata) == EPERM, name
        for name, number in rows(seccomp.ABSENT, arch[1]):
            assert judge(arch, number, metadata=metadata) == ENOSYS, name


def test_serving_and_connecting_need_a_network(arch):
    for name, number in rows(seccomp.SERVES, arch[1]):
        assert judge(arch, number) == EPERM, name
        assert judge(arch, number, network=True) == ALLOW, name


def test_metadata_is_untouched_where_the_mounts_are_the_hosts(arch):
    for name, number in rows(seccomp.PRETENDED, arch[1]):
        assert judge(arch, number, metadata=False) == error(0), name
        assert judge(arch, number) == (NOT_SUPPORTED if "setxattr" in name else ALLOW), name
    for name, number in rows(seccomp.ATTRIBUTES, arch[1]):
        assert judge(arch, number, metadata=False) == NOT_SUPPORTED, name
        assert judge(arch, number) == ALLOW, name


CREATES = {
    "open": ((2, None), 2), "creat": ((85, None), 1), "openat": ((257, 56), 3), "mknod": ((133, None), 1),
    "mknodat": ((259, 33), 2), "mkdir": ((83, None), 1), "mkdirat": ((258, 34), 2),
}  # fmt: skip


@each_row("name", CREATES)
def test_no_set_id_file_is_made_where_the_mounts_are_the_hosts(arch, name):
    row, index = CREATES[name]
    if (number := row[arch[1]]) is None:
        assert arch[0] == AARCH64
        return
    for mode, answer in ((0o755, ALLOW), (0o1777, ALLOW), (0o4755, EPERM), (0o2755, EPERM), (HIGH | 0o4755, EPERM)):
        arguments = (0,) * index + (mode,)
        assert judge(arch, number, *arguments, metadata=False) == answer
        assert judge(arch, number, *arguments) == ALLOW
    assert judge(arch, OPENAT2[arch[1]], metadata=False) == ENOSYS
    assert judge(arch, OPENAT2[arch[1]]) == ALLOW


CHANGES_MODE = {
    "chmod": ((90, None), 1), "fchmod": ((91, 52), 1), "fchmodat": ((268, 53), 2), "fchmodat2": ((452, 452), 2),
}  # fmt: skip


@each_row("name", [*CREATES, *CHANGES_MODE])
def test_no_program_is_made_to_run_as_its_owner_where_only_that_is_taken_away(arch, name):
    row, index = (CREATES | CHANGES_MODE)[name]
    if (number := row[arch[1]]) is None:
        assert arch[0] == AARCH64
        return
    for mode, answer in ((0o755, ALLOW), (0o2755, ALLOW), (0o4755, EPERM), (HIGH | 0o4000, EPERM)):
        arguments = (0,) * index + (mode,)
        assert judge(arch, number, *arguments, set_user_id=False) == answer
        assert judge(arch, number, *arguments) == ALLOW
    assert judge(arch, OPENAT2[arch[1]], set_user_id=False) == ENOSYS


def test_what_is_newer_than_the_newest_judged_call_does_not_exist(arch):
    assert judge(arch, seccomp.NEWEST) == ALLOW
    for number in (seccomp.NEWEST + 1, 500, 1000, 0x3FFFFFFF):
        assert judge(arch, number) == ENOSYS


HIGH = 1 << 32  # a bit that only a filter which compares 64 bits would see

CLONE, SOCKET, SOCKETPAIR, IOCTL = (56, 220), (41, 198), (53, 199), (16, 29)
PRLIMIT, SETPRIORITY, IOPRIO, PERSONALITY, KILL = (302, 261), (141, 140), (251, 30), (135, 92), (62, 129)
SETRLIMIT, OPENAT2, FCNTL = (160, 164), (437, 437), (72, 25)
CORE = 4
NAMESPACES = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]


@each_row(
    ("call", "arguments", "answer"),
    [
        (CLONE, (0x3D0F00,), ALLOW),  # a thread, as glibc makes one
        (CLONE, (0x1200011,), ALLOW),  # fork
        *[(CLONE, (flag | 17,), EPERM) for flag in NAMESPACES],
        *[(CLONE, (flag | HIGH,), EPERM) for flag in NAMESPACES],
        *[(SOCKET, (family, 1, 0), FAMILY) for family in (1, 2, 10, 15, 16, 17, 38, 40)],
        (SOCKETPAIR, (1, 1, 0), ALLOW),
        (SOCKETPAIR, (1, 5, 0), ALLOW),
        (SOCKETPAIR, (1, 1 | 0o2000000 | 0o4000, 0), ALLOW),  # close-on-exec, non-blocking
        (SOCKETPAIR, (1, 2, 0), FAMILY),
        (SOCKETPAIR, (1, 2 | 0o2000000, 0), FAMILY),
        (SOCKETPAIR, (1, 3, 0), FAMILY),
        (SOCKETPAIR, (16, 1, 0), FAMILY),
        (SOCKETPAIR, (1 | HIGH, 2, 0), FAMILY),
        (IOCTL, (0, 0x5401), ALLOW),
        *[(IOCTL, (0, number), EPERM) for number in (0x5412, 0x541C, 0x5423, 0x541D)],
        (IOCTL, (0, 0x5412 | HIGH), EPERM),
        *[(IOCTL, (0, number), EPERM) for number in (0x40086602, 0x40046602, 0x40087602, 0x40047602)],
        *[(IOCTL, (0, number), EPERM) for number in (0x401C5820, 0x40806685, 0x800C6613, 0xC0506617, 0xC0406618)],
        (IOCTL, (0, 0x80086601), ALLOW),  # FS_IOC_GETFLAGS
        *[(FCNTL, (3, command), ALLOW) for command in (0, 1, 2, 3, 4, 6, 8, 10, 1025, 1030, 1031, 1033)],
        *[(FCNTL, (3, command), EPERM) for command in (1024, 1026, 1026 | HIGH)],
        (PRLIMIT, (0, 7), ALLOW),
        (PRLIMIT, (1234, 7), EPERM),
        (PRLIMIT, (0, CORE, 0, 0x7F0000), ALLOW),  # read alone
        (PRLIMIT, (0, CORE, 0x7F0000, 0), EPERM),
        (PRLIMIT, (0, CORE, HIGH, 0), EPERM),
        (PRLIMIT, (0, 7, 0x7F0000, 0), ALLOW),
        (SETRLIMIT, (7, 0x7F0000), ALLOW),
        (SETRLIMIT, (CORE, 0x7F0000), EPERM),
        (SETPRIORITY, (0, 0, 5), ALLOW),
        (SETPRIORITY, (0, 1234, 5), EPERM),
        (SETPRIORITY, (1, 0, 5), EPERM),
        (SETPRIORITY, (2, 0, 5), EPERM),
        (IOPRIO, (1, 0, 0), ALLOW),
        (IOPRIO, (1, 1234, 0), EPERM),
        (IOPRIO, (3, 0, 0), EPERM),
        (PERSONALITY, (0,), ALLOW),
        (PERSONALITY, (0xFFFFFFFF,), ALLOW),
        (PERSONALITY, (0x0400000,), EPERM),
        (KILL, (1234, 9), ALLOW),
        (KILL, (0, 9), ALLOW),
        (KILL, (0xFFFFFFFF, 9), EPERM),
        (KILL, (-1, 9), EPERM),
    ],
)
def test_arguments_decide(arch, call, arguments, answer):
    assert judge(arch, call[arch[1]], *arguments) == answer


def test_without_processes_there_are_threads_alone(arch):
    thread, fork, sibling = 0x3D0F00, 0x1200011, 0x8011
    assert judge(arch, CLONE[arch[1]], thread, processes=False) == ALLOW
    for flags in (fork, sibling, 0, thread & ~0x10000, fork | HIGH):
        assert judge(arch, CLONE[arch[1]], flags, processes=False) == EPERM
    for number in (57, 58) if arch[0] == X86_64 else ():
        assert judge(arch, number, processes=False) == EPERM
        assert judge(arch, number) == ALLOW


@each_row(("family", "answer"), [(2, ALLOW), (10, ALLOW), (1, FAMILY), (16, FAMILY), (17, FAMILY)])
def test_a_network_is_ipv4_and_ipv6(arch, family, answer):
    assert judge(arch, SOCKET[arch[1]], family, 1, 0, network=True) == answer


HEADERS = {
    "x86_64": [Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm/unistd_64.h")],
    "aarch64": [Path("/usr/include/asm-generic/unistd.h")],
}
TABLES = (seccomp.SERVES, seccomp.DENIED, seccomp.ABSENT, seccomp.PRETENDED, seccomp.ATTRIBUTES, seccomp.SELF_ONLY)


@pytest.mark.parametrize("name", ARCHES)
def test_numbers_are_those_of_the_systems_headers(name):
    header = next((file for file in HEADERS[name] if file.exists()), None)
    if header is None:
        pytest.skip("linux-libc-dev is not installed")
    known = {
        found[1]: int(found[2])
        for found in re.finditer(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text(), re.MULTILINE)
    }
    column = ARCHES[name][1]
    compared = 0
    for table in TABLES:
        for call, row in table.items():
            if call in known:
                assert row[column] == known[call], call
                compared += 1
            elif row[column] is not None and row[column] <= max(known.values()):
                assert call in {"umount2", "nfsservctl", "lookup_dcookie", "ustat", "sysfs", "_sysctl", "uselib"}, call
    assert compared > 80


def test_the_other_numbers_are_those_of_the_systems_headers():
    header = next((file for file in HEADERS["x86_64"] if file.exists()), None)
    if header is None:
        pytest.skip("linux-libc-dev is not installed")
    known = dict(re.findall(r"^#define __NR_(\w+)\s+(\d+)", header.read_text(), re.MULTILINE))
    for call, number in {
        "clone": seccomp._CLONE, "socket": seccomp._SOCKET, "socketpair": seccomp._SOCKETPAIR,
        "ioctl": seccomp._IOCTL, "setpriority": seccomp._SETPRIORITY, "ioprio_set": seccomp._IOPRIO_SET,
        "personality": seccomp._PERSONALITY, "kill": seccomp._KILL, "setrlimit": seccomp._SETRLIMIT,
        "prlimit64": seccomp._PRLIMIT, "openat2": seccomp._OPENAT2,
        "fcntl": seccomp._FCNTL, "fork": seccomp._FORKS[0], "vfork": seccomp._FORKS[1],
        **{name: row[:2] for name, row in seccomp._CREATES.items()},
    }.items():  # fmt: skip
        assert int(known[call]) == number[0]


def test_calls_that_two_tables_name_have_one_number():
    for name, row in seccomp._CHANGES_MODE.items():
        assert row[:2] == seccomp.PRETENDED[name]
