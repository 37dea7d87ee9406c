"""The filter for containers, read as an engine reads it, and compared with the one of the other back ends."""

import json
import re

import pytest

from tests.sandbox.linux import test_seccomp as filters
from tests.tables import each_row
from toolbox_mcp.sandbox.linux import profile, seccomp
from toolbox_mcp.sandbox.linux.bpf import ALLOW

HOLDS = {
    "SCMP_CMP_EQ": lambda given, rule: given == rule["value"],
    "SCMP_CMP_MASKED_EQ": lambda given, rule: given & rule["value"] == rule["valueTwo"],
}
BY_ARGUMENTS = {
    "clone": filters.CLONE, "socket": filters.SOCKET, "socketpair": filters.SOCKETPAIR, "ioctl": filters.IOCTL,
    "prlimit64": filters.PRLIMIT, "setrlimit": filters.SETRLIMIT, "setpriority": filters.SETPRIORITY,
    "ioprio_set": filters.IOPRIO, "personality": filters.PERSONALITY, "kill": filters.KILL,
    **{name: seccomp.SELF_ONLY[name] for name in seccomp.SELF_ONLY if name != "prlimit64"},
}  # fmt: skip
READ = {network: json.loads(profile.build(network=network)) for network in (True, False)}
HIGH = 1 << 32
WORDS = (0, 1, 2, 4, 5, 7, 10, 16, 0x5401, 0x5412, 0x541C, 0x541D, 0x5423, 0xFFFFFFFF, 0x3D0F00, 0x10000000, 1 | HIGH)


def answer(name, *arguments, network=False):
    """Return the errno that a call gets, 0 where it is allowed. A rule without arguments goes before one with."""
    read = READ[network]
    given = [*arguments, *[0] * (6 - len(arguments))]
    mine = [rule for rule in read["syscalls"] if name in rule["names"]]
    for rule in sorted(mine, key=lambda rule: len(rule.get("args", ()))):
        if all(HOLDS[test["op"]](given[test["index"]], test) for test in rule.get("args", ())):
            return 0 if rule["action"] == "SCMP_ACT_ALLOW" else rule["errnoRet"]
    assert read["defaultAction"] == "SCMP_ACT_ERRNO"
    return read["defaultErrnoRet"]


@each_row("network", [True, False])
def test_what_other_back_ends_deny_is_denied_and_what_is_absent_there_is_absent(network):
    assert {answer(name, network=network) for name in seccomp.DENIED} == {seccomp.EPERM}
    assert {answer(name, network=network) for name in seccomp.ABSENT} == {seccomp.ENOSYS}
    assert {answer(name, network=network) for name in seccomp.SERVES} == {0 if network else seccomp.EPERM}
    assert {answer(name, network=network) for name in profile.ALLOWED} == {0}
    assert {answer(name, network=network) for name in seccomp.SETS_ATTRIBUTES} == {seccomp.EOPNOTSUPP}
    assert answer("a_call_that_comes_later", network=network) == seccomp.EPERM


@each_row("network", [True, False])
@each_row("name", BY_ARGUMENTS)
def test_arguments_decide_as_in_the_other_back_ends(name, network):
    program = seccomp.build(seccomp.X86_64, metadata=True, network=network)
    number = BY_ARGUMENTS[name][0]
    answers = set()
    for first in WORDS:
        for second in WORDS:
            for third in (0, 1, HIGH):
                mine = answer(name, first, second, third, network=network) == 0
                theirs = filters.simulator.run(program, seccomp.X86_64, number, (first, second, third)) == ALLOW
                # What differs in the high bits alone is denied here, and nobody means it.
                assert mine == theirs or (theirs and max(first, second, third) > HIGH), (first, second, third)
                answers.add(mine)
    assert answers == ({False} if name == "socket" and not network else {True, False})


def test_calls_of_other_architectures_are_not_the_profiles():
    assert all(entry["subArchitectures"] == [] for entry in READ[False]["archMap"])


@each_row("values", [[4], [0xFFFFFFFF], [0], [0x5412, 0x541C, 0x5423, 0x541D]])
def test_all_but_some_values_is_everything_else(values):
    tests = list(profile.all_but(values))
    near = {value ^ (1 << bit) for value in values for bit in range(32)} - set(values)
    others = {*near, 1, 2, 0x7FFFFFFF, 0x80000000} - set(values)
    assert all(any(word & mask == rest for mask, rest in tests) for word in others)
    assert not any(word & mask == rest for word in values for mask, rest in tests)
    assert not any((word | HIGH) & mask == rest for word in values for mask, rest in tests)


OF_ANOTHER_WIDTH = re.compile(r"_time64$|^(clock|timer|timerfd|clock_adj|sched_rr).*64$")
NEVER_MADE = {
    "afs_syscall", "create_module", "epoll_ctl_old", "epoll_wait_old", "get_kernel_syms", "getpmsg", "putpmsg",
    "query_module", "security", "tuxcall", "vserver", "arch_specific_syscall", "syscalls", "fstatat",
    "umount", "uprobe", "uretprobe",
}  # fmt: skip


@pytest.mark.parametrize("name", filters.ARCHES)
def test_every_call_of_the_systems_headers_is_judged(name):
    header = next((file for file in filters.HEADERS[name] if file.exists()), None)
    if header is None:
        pytest.skip("linux-libc-dev is not installed")
    rows = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text(), re.MULTILINE)
    known = {call for call, number in rows if int(number) <= seccomp.NEWEST}
    refused = {*seccomp.DENIED, *seccomp.ABSENT, *seccomp.SERVES, *seccomp.SETS_ATTRIBUTES}
    judged = {*profile.ALLOWED, *BY_ARGUMENTS, *refused}
    unjudged = {call for call in known - judged - NEVER_MADE if not OF_ANOTHER_WIDTH.search(call)}
    assert len(known) > 300
    assert unjudged == set()
    assert not set(profile.ALLOWED) & {*BY_ARGUMENTS, *refused}
