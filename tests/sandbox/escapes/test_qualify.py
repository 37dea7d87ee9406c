"""Which back ends qualify, in worlds as they are and with parts of the kernel taken away."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.sandbox.escapes import world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the back ends on this host are Linux")

ROUNDS = ("as it is", "no Landlock", "no namespaces", "neither", "leaky")
SEEN = "no namespaces: names and attributes of files outside can be seen"
WORKS = ["bubblewrap", "native", "landlock"]
NO_BWRAP = "No permissions to create new namespace"
NO_UNSHARE = "PermissionError: [Errno 1] Operation not permitted: 'unshare'"
NO_LANDLOCK = "the kernel has no Landlock"


@pytest.fixture(scope="module", params=world.IDENTITIES)
def qualified(request):
    """Return a function that gives the report of a round, each of which is run once, in a world of its own."""
    with ThreadPoolExecutor(3) as pool:
        running = {name: pool.submit(world.run, request.param, name) for name in ROUNDS}

    def of(name):
        try:
            report = running[name].result()
        except world.NoWorld as reason:
            if "not installed" in str(reason):
                pytest.skip(str(reason))
            raise
        assert report["problems"] == []
        return report["rounds"][name]

    return of


@pytest.mark.parametrize(
    ("kernel", "works", "auto"),
    [
        ("as it is", WORKS, "bubblewrap"),
        ("no Landlock", ["bubblewrap", "native"], "bubblewrap"),
        ("no namespaces", ["landlock"], "landlock"),
        ("neither", [], None),
    ],
)
def test_auto_takes_the_best_that_contains_its_own_attack(qualified, kernel, works, auto):
    found = qualified(kernel)
    assert [name for name in WORKS if found["doctor"][name][0]] == works
    if auto is None:
        assert found["auto"][0] == "sandbox_unavailable"
    else:
        assert found["auto"] == [auto, [SEEN] if auto == "landlock" else [], "42\n"]


@pytest.mark.parametrize(
    ("kernel", "named", "reason"),
    [
        ("no namespaces", "bubblewrap", NO_BWRAP),
        ("no namespaces", "native", NO_UNSHARE),
        ("no Landlock", "landlock", NO_LANDLOCK),
        ("neither", "bubblewrap", NO_BWRAP),
        ("neither", "native", NO_UNSHARE),
        ("neither", "landlock", NO_LANDLOCK),
        ("as it is", "none", "sandbox_runtime is none"),
        ("as it is", "seatbelt", "not offered here"),
        ("as it is", "docker", "docker: "),
    ],
)
def test_a_named_back_end_that_does_not_qualify_is_unavailable_and_says_why(qualified, kernel, named, reason):
    code, message = qualified(kernel)["named"][named]
    assert code == "sandbox_unavailable"
    assert message.startswith(f"the {named} sandbox does not work here: ")
    assert reason in message
    assert "42" not in message


@pytest.mark.parametrize("kernel", ["no namespaces", "neither"])
def test_what_is_refused_is_named_with_each_reason(qualified, kernel):
    found = qualified(kernel)["doctor"]
    assert NO_BWRAP in found["bubblewrap"][1][0]
    assert found["native"][1] == [NO_UNSHARE]


def test_a_named_back_end_that_qualifies_is_the_one_that_runs(qualified):
    named = qualified("as it is")["named"]
    assert {name: named[name][0] for name in WORKS} == {name: name for name in WORKS}
    assert {name: bool(named[name][1]) for name in WORKS} == {"bubblewrap": False, "native": False, "landlock": True}


# What the probe sees of back ends that leave everything, or one thing, open.
ALWAYS = {"inherited_descriptor", "many_processes", "memory_file", "user_namespace"}
OUTSIDE = {"home_listed", "file_read", "datagram_socket"}


@pytest.mark.parametrize(
    ("leaky", "not_contained"),
    [
        (
            "nothing",
            ALWAYS | OUTSIDE | {"file_written", "abstract_socket", "loopback", "signal_sent", "environment_read"},
        ),
        ("read-only", ALWAYS | OUTSIDE | {"abstract_socket", "loopback", "signal_sent"}),
        ("all but memory, descriptors and numbers", ALWAYS),
        ("all but the network", ALWAYS | {"abstract_socket", "loopback"}),
        ("all but processes", ALWAYS | {"signal_sent"}),
    ],
)
def test_a_back_end_that_leaks_does_not_qualify(qualified, leaky, not_contained):
    ok, (reason,) = qualified("leaky")["doctor"][leaky]
    assert not ok
    head, _, names = reason.partition(": ")
    assert (head, set(names.split(", "))) == ("does not contain", not_contained)
