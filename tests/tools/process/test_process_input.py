import pytest


async def test_drives_an_interpreter(call, start):
    id = await start("python3", "-i", "-q", stdin=True)
    await call("process_output", id=id, wait_for=">>> ")
    assert await call("process_input", id=id, text="print(6 * 7)\n") == f"Wrote 13 bytes to {id}"
    assert "42" in await call("process_output", id=id, wait_for="42")


async def test_drives_a_prompt_on_a_terminal(call, start, ended):
    id = await start("bash", "--norc", "-c", "read -p 'name=> ' n; echo hello $n", pty=True)
    await call("process_output", id=id, wait_for="name=> $")
    await call("process_input", id=id, text="you\n")
    result, text = await ended(id)
    assert (result["exit_code"], text) == (0, "you\nhello you\n")


@pytest.mark.parametrize("pty", [False, True])
async def test_end_is_the_end_of_input(call, start, ended, pty):
    id = await start("cat", stdin=not pty, pty=pty)
    result = await call.result("process_input", {"id": id, "text": "é\n", "end": True})
    assert result.structured_content == {"id": id, "written": 3}
    result, text = await ended(id)
    assert (result["exit_code"], text) == (0, "é\n" * (1 + pty))


async def test_refuses(call, start, ended):
    without = await start("sleep", "60")
    gone = await start("true", stdin=True)
    await ended(gone)
    assert await call.code("process_input", id=without, text="x") == "refused"
    assert await call.code("process_input", id=gone, text="x") == "refused"
    assert await call.code("process_input", id="proc_77", text="x") == "unknown_process"
    assert await call.code("process_input", id=without, text="é" * 32769) == "invalid_args"
    assert await call.code("process_input", id=without, text="\ud800") == "invalid_args"
    assert await call.code("process_input", id=without) == "invalid_args"
