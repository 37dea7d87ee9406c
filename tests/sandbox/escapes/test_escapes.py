"""Every attempt on every back end of Linux's own, as an ordinary user and as the root of a user namespace.

All of it runs in the worlds that world.py makes, one an identity; the tests here read their reports. Containers are
attacked in test_containers.py.
"""

import re
import sys
from pathlib import Path

import pytest

from tests.sandbox.escapes import bombs, residue, world
from tests.sandbox.escapes.conftest import everywhere

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the back ends on this host are Linux")

HERE = Path(__file__).parent
PAGE = HERE.parent.parent.parent / "docs" / "security-sandbox.md"


CONTROL = "none"
BACK_ENDS = (
    *("native", "native-exec", "native-warm"),
    *("landlock", "landlock-exec", "landlock-warm"),
    *("bubblewrap", "bubblewrap-warm"),
)
ONCE = re.findall(r"^@attempt\ndef (\w+)", (HERE / "attempts.py").read_text(), re.MULTILINE)
SEEN_OUTSIDE = ["outside_files", "outside_processes", "outside_sockets"]
BOMBS = [*(f"takes_{name}" for name in bombs.GREEDY), *(f"stays_{name}" for name in bombs.LASTING)]

NEEDS_ROOT = "needs the system's root, who takes no part here"
NOT_IN_KERNEL = "kernels may have no such thing"
WITHOUT_CONTROL = {
    **dict.fromkeys(
        [
            "read_kernel_log",
            "read_kernel_memory",
            "make_device",
            "make_device_outside",
            "write_proc_sys",
            "write_sysrq",
            "write_cgroups",
            "madvise_process",
            "kernel_module",
            "kexec",
            "swap",
            "accounting",
            "io_ports",
            "real_root",
            "real_time",
            "raise_priority",
        ],
        NEEDS_ROOT,
    ),
    **dict.fromkeys(
        [
            "share_core_cookie",
            "sctp",
            "mptcp",
            "udp_lite",
            "vsock",
            "crypto_socket",
            "bluetooth",
            "x32",
            "int80",
            "secret_memory",
            "perf_events",
            "terminal_injection",
            "userfaultfd",
            "io_uring",
            "rings_of_the_machine",
            "takes_disk_in_attributes",
        ],
        NOT_IN_KERNEL,
    ),
    "write_etc": "the world's system folders are read-only",
    "write_usr": "the world's system folders are read-only",
    "ping": "needs net.ipv4.ping_group_range",
    "lock_memory": "needs a limit above the sandbox's",
    "set_user_id_program": "no_new_privs is set in the world already",
    "privileges_can_grow": "no_new_privs is set in the world already",
}
"""Attempts that may not succeed in the world either, so that it says little that they are contained."""


def kind(back_end):
    return back_end.partition("-")[0]


def attempts_on(back_end):
    return [*ONCE, *SEEN_OUTSIDE, *(BOMBS if back_end == kind(back_end) else [])]


@pytest.fixture(scope="module")
def reports():
    return everywhere(CONTROL, *BACK_ENDS)


@pytest.mark.parametrize("identity", world.IDENTITIES)
def test_nothing_is_tried_in_a_world_with_a_way_out(reports, identity):
    assert reports[identity]["problems"] == []


@pytest.mark.parametrize("identity", world.IDENTITIES)
@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_each_back_end_takes_part(reports, identity, back_end):
    found = reports[identity]["rounds"][back_end]
    assert "refused" not in found, found.get("refused")
    assert set(found["attempts"]) == set(attempts_on(back_end))


def test_each_attempt_succeeds_without_a_sandbox(reports):
    failed = {}
    for name in attempts_on(CONTROL):
        controls = [report["rounds"][CONTROL]["attempts"][name] for report in reports.values()]
        if not any(succeeded for succeeded, *_ in controls) and name not in WITHOUT_CONTROL:
            failed[name] = controls
    assert failed == {}


@pytest.mark.parametrize("identity", world.IDENTITIES)
@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_each_attempt_is_contained(reports, identity, back_end):
    attempts = reports[identity]["rounds"][back_end]["attempts"]
    left = residue.RESIDUE[kind(back_end)]
    assert {name: attempts[name] for name in attempts_on(back_end) if attempts[name][0] != (name in left)} == {}


@pytest.mark.parametrize("identity", world.IDENTITIES)
@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_a_back_end_that_contains_less_says_so(reports, identity, back_end):
    degraded = reports[identity]["rounds"][back_end]["degraded"]
    assert bool(degraded) == bool(residue.RESIDUE[kind(back_end)] - residue.UNFLAGGED)


def test_the_page_names_what_is_not_contained():
    text = PAGE.read_text()
    every = set().union(*residue.RESIDUE.values())
    for name in every:
        assert f"`{name}`" in text, name
    left = text.partition("## What is left")[2].partition("\n## ")[0]
    known = {*ONCE, *SEEN_OUTSIDE, *BOMBS}
    assert set(re.findall(r"`(\w+)`", left)) & known == every
