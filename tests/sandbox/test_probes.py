import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.sandbox.backends.probes import Verdicts, qualify
from toolbox_mcp.sandbox.process.capture import Stream
from toolbox_mcp.sandbox.process.child import Usage
from toolbox_mcp.sandbox.spec import Finished, Job, Probe, Result

PYTHON = Job(argv=("python3", "-"))


class Asked:
    """An attack that counts how often it is made."""

    def __init__(self, *probes):
        self.probes = list(probes)
        self.count = 0

    async def __call__(self):
        self.count += 1
        return self.probes.pop(0)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state" / "verdicts.json"


async def test_what_qualified_is_not_attacked_again(file):
    attack = Asked(Probe(True, ("degraded",)))
    first = await Verdicts(file, "1").of("native", attack)
    # Another server, later.
    second = await Verdicts(file, "1").of("native", attack)
    assert first == second == Probe(True, ("degraded",))
    assert attack.count == 1


async def test_what_did_not_qualify_is_attacked_again(file):
    attack = Asked(Probe(False, ("no",)), Probe(True))
    assert await Verdicts(file, "1").of("native", attack) == Probe(False, ("no",))
    assert await Verdicts(file, "1").of("native", attack) == Probe(True)
    assert attack.count == 2


@pytest.mark.parametrize("what", ["version", "boot", "key", "user"])
async def test_a_verdict_is_of_one_version_boot_back_end_and_user(file, monkeypatch, what):
    attack = Asked(Probe(True), Probe(True, ("second",)))
    await Verdicts(file, "1").of("native", attack)
    if what == "boot":
        monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release="another boot, or another kernel"))
    if what == "user":
        monkeypatch.setattr(os, "geteuid", lambda: -1)
    later = Verdicts(file, "2" if what == "version" else "1")
    assert await later.of("bubblewrap" if what == "key" else "native", attack) == Probe(True, ("second",))


async def test_a_boot_is_told_from_another_and_a_kernel_too(file):
    await Verdicts(file, "1").of("a", Asked(Probe(True)))
    (key,) = json.loads(file.read_text())
    assert Path("/proc/sys/kernel/random/boot_id").read_text().strip() + os.uname().release in key


async def test_verdicts_of_an_earlier_boot_are_forgotten(file, monkeypatch):
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release="first"))
    await Verdicts(file, "1").of("a", Asked(Probe(True)))
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release="second"))
    await Verdicts(file, "1").of("b", Asked(Probe(True)))
    (key,) = json.loads(file.read_text())
    assert "second" in key


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"a": 1}', "\x00", "[" * 100_000])
async def test_a_file_that_holds_something_else_is_no_verdict(file, content):
    file.parent.mkdir()
    file.write_text(content)
    attack = Asked(Probe(True))
    assert await Verdicts(file, "1").of("native", attack) == Probe(True)
    assert attack.count == 1


async def test_a_file_that_others_may_write_is_no_verdict(file):
    attack = Asked(Probe(True), Probe(True), Probe(True))
    await Verdicts(file, "1").of("native", attack)
    file.chmod(0o666)
    await Verdicts(file, "1").of("native", attack)
    assert attack.count == 2


async def test_nobody_else_may_write_the_file_that_is_made(file):
    before = os.umask(0)
    try:
        await Verdicts(file, "1").of("native", Asked(Probe(True)))
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_state_folder_that_cannot_be_written_costs_an_attack_and_no_more(tmp_path):
    (tmp_path / "state").write_text("a file")
    attack = Asked(Probe(True), Probe(True))
    for _ in range(2):
        assert await Verdicts(tmp_path / "state" / "verdicts.json", "1").of("native", attack) == Probe(True)
    assert attack.count == 2


class Said:
    """A back end whose programs say what they are told to, and do nothing."""

    name = "said"

    def __init__(self, text="", *, works=None, failure=None, killed_by=None, act=lambda job: None):
        self.text, self.works, self.failure, self.killed_by, self.act = text, works, failure, killed_by, act
        self.jobs = []

    async def probe(self):
        return self.works or Probe(True, ("weak",))

    async def run(self, job):
        self.jobs.append(job)
        if self.failure:
            raise self.failure
        self.act(job)
        out = Stream(self.text, len(self.text), False, self.text.encode())
        none = Stream("", 0, False, b"")
        return Result(Finished(0, None, False, self.killed_by, 0, out, none, Usage()), self.name)


@pytest.mark.parametrize(
    "backend",
    [Said("forking\ndone\n"), Said("forking\n", killed_by="pids")],
    ids=["cannot_fork", "ended_for_its_forks"],
)
async def test_what_contains_the_attack_qualifies_with_what_it_said_of_itself(tmp_path, backend):
    assert await qualify(backend, PYTHON, str(tmp_path)) == Probe(True, ("weak",))
    (job,) = backend.jobs
    assert b"def loopback" in job.stdin


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        (Said("loopback\nfile_read\nforking\ndone\n"), "does not contain: file_read, loopback"),
        (Said(""), "the self-attack did not finish: no answer"),
        (Said("loopback\n"), "the self-attack did not finish: no answer"),
        (Said("", killed_by="memory"), "the self-attack did not finish: memory"),
        (Said("forking\n", killed_by="memory"), "the self-attack did not finish: memory"),
        (Said("loopback\n", killed_by="pids"), "the self-attack did not finish: pids"),
        (Said("loopback\nforking\n", killed_by="pids"), "does not contain: loopback"),
        (Said(works=Probe(False, ("not installed",))), "not installed"),
        (Said(failure=ToolError(Code.SANDBOX_UNAVAILABLE, "broken")), "broken"),
    ],
)
async def test_what_does_not_contain_it_or_does_not_finish_it_does_not_qualify(backend, reason, tmp_path):
    assert await qualify(backend, PYTHON, str(tmp_path)) == Probe(False, (reason,))


async def test_a_back_end_that_does_not_work_is_not_attacked(tmp_path):
    backend = Said(works=Probe(False, ("no",)))
    await qualify(backend, PYTHON, str(tmp_path))
    assert backend.jobs == []


def targets(job):
    line = next(line for line in job.stdin.decode().splitlines() if line.startswith("targets = "))
    return eval(line.removeprefix("targets = "), {"__builtins__": {}})


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("file_written", lambda aim: open(aim["outside"], "w").close()),
        ("signal_sent", lambda aim: os.kill(aim["pid"], 9)),
    ],
)
async def test_a_success_that_only_shows_outside_counts_too(tmp_path, name, act):
    """The program may be killed, or may not tell."""
    backend = Said("done\n", act=lambda job: act(targets(job)))
    assert await qualify(backend, PYTHON, str(tmp_path)) == Probe(False, (f"does not contain: {name}",))
