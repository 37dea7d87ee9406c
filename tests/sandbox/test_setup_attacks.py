"""What a confined call's own variables can do before its sandbox stands, and what of it others find."""

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.machine import no_back_end, skip_for
from toolbox_mcp.sandbox.linux.zygote_client import SetupFailed, Zygote
from toolbox_mcp.sandbox.process.capture import Capture
from toolbox_mcp.sandbox.service import Sandbox, SandboxSettings

pytestmark = [pytest.mark.attack, pytest.mark.skipif(sys.platform != "linux", reason="the back ends of Linux")]

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}
BACK_ENDS = ("bubblewrap", "native")


@pytest.fixture
async def made(tmp_path):
    async with contextlib.AsyncExitStack() as stack:

        def make(runtime):
            skip_for(no_back_end(runtime))
            # As root the programs are nobody, who may not enter a folder of the tests.
            base = tempfile.mkdtemp(prefix="setup-attacks-")
            os.chmod(base, 0o755)
            stack.callback(shutil.rmtree, base)
            settings = SandboxSettings(tmp_path, Path("/tmp"), "/nonexistent", ENV, runtime, timeout=20)
            sandbox = Sandbox(settings)
            stack.push_async_callback(sandbox.aclose)
            return sandbox, base

        yield make


async def confined(sandbox, base, argv, **env):
    result = await sandbox.run_on(base, argv, cwd=base, env=env, timeout=20, capture=Capture())
    return result.finished


@pytest.mark.parametrize("runtime", BACK_ENDS)
async def test_variables_of_a_call_load_nothing_into_what_stands_before_its_program(made, runtime):
    sandbox, base = made(runtime)
    # The loader of every program that is started with it says so, and would load other code as willingly.
    done = await confined(sandbox, base, ["/bin/true"], LD_DEBUG="files")
    started = [line.split()[-1] for line in done.stderr.text.splitlines() if "transferring control" in line]
    assert started == ["/bin/true"]


@pytest.mark.parametrize("runtime", BACK_ENDS)
async def test_a_program_and_variables_with_odd_names_arrive(made, runtime):
    sandbox, base = made(runtime)
    odd = Path(base, "a=b")
    odd.write_text('#!/bin/sh\necho ran $1 "$x"\n')
    odd.chmod(0o755)
    done = await confined(sandbox, base, [str(odd), "it"], x="a = b\n")
    assert (done.exit_code, done.stdout.text) == (0, "ran it a = b\n\n")


SEARCH = """
import re
found = set()
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        start, stop = (int(part, 16) for part in line.split()[0].split("-"))
        if "rw" in line.split()[1]:
            try:
                memory.seek(start)
                found.update(re.findall(rb"mark[e]r-[a-z]+-[0-9]+", memory.read(stop - start)))
            except (OSError, ValueError, OverflowError):
                pass
print(sorted(found), bool(marker))
"""


async def test_code_finds_nothing_of_other_calls_in_its_memory(made):
    sandbox, base = made("native")
    for number in range(12):
        word = f"marker-command-{number}"
        await confined(sandbox, base, ["/bin/echo", word], SECRET=f"marker-variable-{number}")
    done = (await sandbox.run_code("python", "marker = 'marker' + '-own-1'\n" + SEARCH)).finished
    assert done.stdout.text == "[b'marker-own-1'] True\n"


async def test_a_zygote_that_does_not_greet_is_ended_and_told():
    # This one takes the same socket, and says nothing.
    silent = "toolbox_mcp.sandbox.isolate.zygote"
    async with contextlib.aclosing(Zygote(silent, 0.5)) as zygote:
        for _ in range(2):
            with pytest.raises(SetupFailed, match="the zygote did not start"):
                await zygote.start({})
            assert zygote.pid is None
