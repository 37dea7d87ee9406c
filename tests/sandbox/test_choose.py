import pytest

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.sandbox.backends.choose import candidates, choose
from toolbox_mcp.sandbox.spec import Finished, Job, Probe, Result


@pytest.mark.parametrize(
    ("runtime", "platform", "names"),
    [
        ("auto", "linux", ("bubblewrap", "native", "docker", "podman", "landlock")),
        ("auto", "darwin", ("seatbelt", "docker", "podman")),
        ("auto", "win32", ("docker", "podman")),
        ("container", "linux", ("docker", "podman")),
        ("container", "darwin", ("docker", "podman")),
        ("bubblewrap", "linux", ("bubblewrap",)),
        ("landlock", "linux", ("landlock",)),
        ("podman", "linux", ("podman",)),
        ("none", "linux", ()),
        ("none", "darwin", ()),
    ],
)
def test_the_order_is_that_of_the_contract(runtime, platform, names):
    assert candidates(runtime, platform) == names


class Plain:
    """A back end that answers with its own name, where it is asked at all."""

    def __init__(self, name):
        self.name = name

    async def probe(self):
        return Probe(True)

    async def run(self, job):
        return Result(Finished(0, None, False, None, 0, *(2 * (None,)), None), self.name)

    async def aclose(self):
        return None


def verdicts(**known):
    """Return a way to qualify that knows the reasons against some, and what is asked of it."""
    asked = []

    async def qualify(backend):
        asked.append(backend.name)
        reasons = known.get(backend.name)
        return Probe(reasons is None, () if reasons is None else reasons)

    qualify.asked = asked
    return qualify


BACKENDS = {name: Plain(name) for name in ("bubblewrap", "native", "docker", "landlock")}
ORDER = ("bubblewrap", "native", "docker", "podman", "landlock")


@pytest.mark.parametrize(
    ("refused", "chosen", "asked"),
    [
        ({}, "bubblewrap", ["bubblewrap"]),
        ({"bubblewrap": ("a",)}, "native", ["bubblewrap", "native"]),
        ({"bubblewrap": ("a",), "native": ("b",)}, "docker", ["bubblewrap", "native", "docker"]),
        ({"bubblewrap": (), "native": (), "docker": ()}, "landlock", ["bubblewrap", "native", "docker", "landlock"]),
    ],
)
async def test_the_first_that_qualifies_is_taken_and_none_after_it_is_asked(refused, chosen, asked):
    qualify = verdicts(**refused)
    backend, probe = await choose("auto", ORDER, BACKENDS, qualify)
    assert (backend.name, probe.ok, qualify.asked) == (chosen, True, asked)


async def refusal(runtime, names, qualify):
    backend, probe = await choose(runtime, names, BACKENDS, qualify)
    assert not probe.ok
    assert not (await backend.probe()).ok
    with pytest.raises(ToolError) as raised:
        await backend.run(Job(argv=("/bin/true",)))
    assert raised.value.code is Code.SANDBOX_UNAVAILABLE
    return raised.value.error


async def test_where_a_named_one_does_not_qualify_no_other_is_asked():
    qualify = verdicts(bubblewrap=("does not contain: loopback",))
    said = await refusal("bubblewrap", ("bubblewrap",), qualify)
    assert said == "the bubblewrap sandbox does not work here: bubblewrap: does not contain: loopback"
    assert qualify.asked == ["bubblewrap"]


async def test_where_nothing_qualifies_each_reason_is_given():
    qualify = verdicts(bubblewrap=("a", "b"), native=("c",), docker=("d",), landlock=("e",))
    said = await refusal("auto", ORDER, qualify)
    assert said == (
        "the auto sandbox does not work here: "
        "bubblewrap: a; b | native: c | docker: d | podman: not offered here | landlock: e"
    )


async def test_none_refuses_and_asks_nobody():
    qualify = verdicts()
    said = await refusal("none", (), qualify)
    assert said == "the none sandbox does not work here: sandbox_runtime is none"
    assert qualify.asked == []


async def test_a_back_end_of_another_system_is_not_offered():
    said = await refusal("seatbelt", ("seatbelt",), verdicts())
    assert said == "the seatbelt sandbox does not work here: seatbelt: not offered here"
