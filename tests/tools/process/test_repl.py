import shutil

import pytest

DATABASE = """
while True:
    print("db=> ", end="", flush=True)
    line = input()
    if line == r"\\q":
        break
    print(f"({len(line)} rows)", flush=True)
"""


def need(program):
    return pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")


@pytest.mark.parametrize("pty", [False, True], ids=["pipes", "pty"])
@pytest.mark.parametrize(
    ("command", "args", "prompt", "turns", "leave"),
    [
        pytest.param("python3", ["-i", "-q"], ">>> ", [("6 * 7", "42"), ("'a' + 'b'", "'ab'")], "exit()", id="python"),
        pytest.param(
            "irb",
            ["-f", "--prompt", "simple", "--nomultiline", "--nocolorize"],
            ">> ",
            [("6 * 7", "=> 42"), ("'a' + 'b'", '=> "ab"')],
            "exit",
            id="ruby",
            marks=need("irb"),
        ),
        pytest.param(
            "python3", ["-c", DATABASE], "db=> ", [("select", "(6 rows)"), ("x", "(1 rows)")], r"\q", id="psql"
        ),
    ],
)
async def test_a_prompt_is_driven_turn_by_turn(call, project, start, ended, command, args, prompt, turns, leave, pty):
    call.env |= {"HOME": str(project)}
    id = await start(command, *args, stdin=not pty, pty=pty)
    waiting = prompt + "$"
    await call("process_output", id=id, wait_for=waiting)
    for line, answer in turns:
        await call("process_input", id=id, text=line + "\n")
        assert answer in await call("process_output", id=id, wait_for=waiting)
    await call("process_input", id=id, text=leave + "\n")
    result, _ = await ended(id)
    assert result["exit_code"] == 0
