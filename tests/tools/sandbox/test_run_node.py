import os
from dataclasses import replace

import pytest

from tests.machine import needs as only_with
from tests.machine import no_user_namespace

# Elsewhere each answer says what the back end leaves open.
pytestmark = only_with(no_user_namespace())


@pytest.fixture(autouse=True)
def _node(needs):
    needs("node")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("console.log(6 * 7)", "exit: 0\n--- stdout ---\n42"),
        ("process.exit(3)", "exit: 3\n(no output)"),
        ("process.kill(process.pid, 'SIGKILL')", "result: killed: external\n(no output)"),
        ("Promise.resolve(1).then(console.log)", "exit: 0\n--- stdout ---\n1"),
        ("console.log(require('child_process').execSync('echo hi').toString().trim())", "exit: 0\n--- stdout ---\nhi"),
    ],
)
async def test_returns_what_the_program_wrote(call, code, text):
    assert await call("run_node", code=code) == text


WORKERS = """
const { Worker } = require("worker_threads");
let ended = 0;
for (let i = 0; i < 4; i++)
  new Worker("0", { eval: true }).on("exit", () => { if (++ended === 4) console.log(process.version); });
"""


@pytest.mark.parametrize("runtime", ["bubblewrap", "native"])
async def test_a_node_that_makes_all_its_room_for_code_writable_runs_with_its_workers(call, newer_node, runtime):
    env = call.sandbox.env | {"PATH": f"{newer_node}{os.pathsep}{call.sandbox.env['PATH']}"}
    call.sandbox = replace(call.sandbox, env=env, runtime=runtime)
    fields = (await call.result("run_node", {"code": WORKERS})).structured_content
    assert (fields["exit_code"], fields["stderr"]) == (0, "")
    assert int(fields["stdout"].removeprefix("v").partition(".")[0]) >= 24


async def test_what_does_not_parse_is_a_result(call):
    result = await call.result("run_node", {"code": "console.log("})
    assert (result.is_error, result.structured_content["exit_code"]) == (False, 1)
    assert "SyntaxError" in result.structured_content["stderr"]


@pytest.mark.parametrize(
    ("code", "error"), [("", "empty_code"), (" \n", "empty_code"), ("/" * 2**20 + "/", "too_large")]
)
async def test_refuses_what_is_no_program(call, code, error):
    assert await call.code("run_node", code=code) == error
