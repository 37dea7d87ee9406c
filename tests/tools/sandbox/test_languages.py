"""Every language in every back end: a program that runs, one that is none, and what ends at a limit."""

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.machine import no_back_end, skip_for
from tests.sandbox.conftest import OPTIONS, containers
from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.sandbox.backends.local import NOBODY
from toolbox_mcp.sandbox.languages import LANGUAGES, find
from toolbox_mcp.sandbox.linux.zygote_client import Zygote

HOSTED = ("bubblewrap", "native", "landlock")


@dataclass(frozen=True)
class Programs:
    """complaint: what stderr says of the broken one. greedy: takes 512 MiB, holds it for a while, prints done.

    refusal: what stderr says where the language has seen its end coming. seconds: a limit that starting it does not
    reach.
    """

    hello: str
    broken: str
    complaint: str
    endless: str
    greedy: str
    refusal: str
    seconds: float = 2


NODE = Programs(
    hello="console.log('hello')",
    broken="console.log(",
    complaint="SyntaxError",
    endless="console.log('begun'); setTimeout(() => console.log('done'), 60000)",
    greedy="""
const held = [];
for (let i = 0; i < 64; i++) held.push(Buffer.alloc(8 << 20, 1));
setTimeout(() => console.log("done", held.length), 5000);
""",
    refusal="heap out of memory",
)
PROGRAMS = {
    "python": Programs(
        hello="print('hello')",
        broken="print(",
        complaint="SyntaxError",
        endless="import time; print('begun', flush=True); time.sleep(60); print('done')",
        greedy="""
import time
held = [bytes([1]) * (8 << 20) for _ in range(64)]
time.sleep(5)
print("done")
""",
        refusal="MemoryError",
    ),
    "ruby": Programs(
        hello="puts 'hello'",
        broken="puts(",
        complaint="syntax error",
        endless="$stdout.sync = true; puts 'begun'; sleep 60; puts 'done'",
        greedy="held = (1..64).map { 'x' * (8 << 20) }; sleep 5; puts 'done', held.size",
        refusal="failed to allocate memory",
    ),
    "node": NODE,
    "node 24": NODE,
    "rust": Programs(
        hello='fn main() { println!("hello"); }',
        broken="fn main() { nothing_here(); }",
        complaint="error[E0425]",
        endless="""
fn main() { println!("begun"); std::thread::sleep(std::time::Duration::from_secs(60)); println!("done"); }
""",
        greedy="""
fn main() {
    let held: Vec<Vec<u8>> = (0..64).map(|_| vec![1; 8 << 20]).collect();
    std::thread::sleep(std::time::Duration::from_secs(5));
    println!("done {}", held.len());
}
""",
        refusal="memory allocation of",
        seconds=6,
    ),
}


@pytest.fixture(
    params=[*HOSTED, pytest.param("podman", marks=[pytest.mark.attack, pytest.mark.xdist_group("podman")]), "none"]
)
def runtime(request):
    skip_for(no_back_end(request.param))
    return request.param


@pytest.fixture(params=PROGRAMS)
def title(request):
    return request.param


@pytest.fixture
def temp():
    """Return a folder for scratch folders, which nobody may enter too; removed when the server is gone."""
    with tempfile.TemporaryDirectory(prefix="scratch-") as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)


@pytest.fixture
async def run(temp, call, runtime, title, needs, request):
    """Return a function that runs a program in the language and the back end, or sees it refused as it has to be.

    It returns the fields of the result, or None. No container outlives a test.
    """
    name = title.split()[0]
    language = LANGUAGES[name]
    env = dict(call.sandbox.env)
    if runtime != "podman":
        needs(language.programs[0])
    if title == "node 24":
        env["PATH"] = f"{request.getfixturevalue('newer_node')}{os.pathsep}{env['PATH']}"
    refusal = "sandbox_unavailable" if runtime == "none" else None
    if runtime == "podman":
        image = request.getfixturevalue("image")
        call.sandbox = replace(call.sandbox, images=dict.fromkeys(LANGUAGES, image), engine_options=OPTIONS)
        refusal = None if name == "python" else "unavailable"
    elif runtime == "landlock" and os.geteuid() == 0:
        zygote = Zygote()
        try:
            await find(zygote, language, env, env["HOME"], reachable_by=NOBODY)
        except ToolError:
            # Installed below a home that nobody may enter.
            refusal = "unavailable"
        finally:
            await zygote.aclose()
    call.sandbox = replace(call.sandbox, env=env, runtime=runtime, temp=temp)

    async def run(code, **settings):
        call.sandbox = replace(call.sandbox, **settings)
        if refusal:
            assert await call.code(f"run_{name}", code=code) == refusal
            return None
        result = await call.result(f"run_{name}", {"code": code})
        fields = result.structured_content
        assert (result.is_error, fields.get("runtime")) == (False, runtime), fields
        return fields

    yield run
    if runtime == "podman":
        assert containers() == []


async def test_a_program_runs(run, title):
    if fields := await run(PROGRAMS[title].hello):
        assert (fields["exit_code"], fields["stdout"], fields["stderr"]) == (0, "hello\n", "")


@pytest.mark.slow
async def test_what_is_no_program_is_a_result(run, title):
    if fields := await run(PROGRAMS[title].broken):
        assert (fields["exit_code"], fields.get("killed_by"), fields["stdout"]) == (1, None, "")
        assert PROGRAMS[title].complaint in fields["stderr"]


@pytest.mark.slow
async def test_a_program_ends_at_the_limit_of_time(run, title, monkeypatch):
    monkeypatch.setattr("toolbox_mcp.sandbox.backends.container.START_SECONDS", 0.0)
    if fields := await run(PROGRAMS[title].endless, timeout=PROGRAMS[title].seconds):
        assert (fields["exit_code"], fields["timed_out"], fields["killed_by"]) == (124, True, "wall")
        assert fields["stdout"] == "begun\n"


@pytest.mark.slow
async def test_a_program_ends_at_the_limit_of_memory(run, title):
    if fields := await run(PROGRAMS[title].greedy):
        assert fields["exit_code"] != 0
        assert "done" not in fields["stdout"]
        assert fields.get("killed_by") == "memory" or PROGRAMS[title].refusal in fields["stderr"]


@pytest.mark.parametrize(
    ("answer", "reachable_by", "told"),
    [
        (None, None, "made-up is not installed"),
        ("echo no toolchain >&2; exit 1", None, "made-up is installed, and does not work"),
        ("echo /nowhere", None, "made-up is installed, and does not work"),
        ('dirname "$(dirname "$0")"', NOBODY, "made-up is installed where a sandboxed program may not go"),
    ],
)
async def test_a_language_that_cannot_be_used_is_told_by_what_is_in_the_way(tmp_path, answer, reachable_by, told):
    language = replace(LANGUAGES["rust"], programs=("made-up",))
    (tmp_path / "bin").mkdir(mode=0o700)
    for name in ("made-up", "rustc") if answer else ():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    zygote = Zygote()
    try:
        with pytest.raises(ToolError) as refused:
            await find(zygote, language, env, "/home/operator", reachable_by=reachable_by)
    finally:
        await zygote.aclose()
    assert (refused.value.code, refused.value.error) == (Code.UNAVAILABLE, told)


def test_every_language_is_in_the_table():
    assert {title.split()[0] for title in PROGRAMS} == set(LANGUAGES)
