import pytest


async def test_returns_each_part_once(call, start):
    id = await start("sh", "-c", "echo one; echo err >&2; read x; echo two; exit 3", stdin=True)
    first = await call.result("process_output", {"id": id, "wait_for": "one"})
    fields = first.structured_content
    assert fields.pop("stderr") in ("", "err\n")
    assert fields == {
        "id": id,
        "status": "running",
        "stdout": "one\n",
        "matched": True,
        "dropped_bytes": 0,
    }
    await call("process_input", id=id, text="go\n")
    assert "two" in await call("process_output", id=id, wait_for="two")
    assert await call("process_output", id=id, wait=10) == f"{id}: exited, exit 3\n(no new output)"


async def test_shows_both_streams(call, start):
    id = await start("sh", "-c", "echo out; echo err >&2; exec sleep 60")
    result = (await call.result("process_output", {"id": id, "wait_for": "err"})).content[0].text
    first = f"{id}: running, matched"
    assert result in (f"{first}\n--- stdout ---\nout\n--- stderr ---\nerr", f"{first}\n--- stderr ---\nerr")


async def test_without_output_says_so(call, start):
    id = await start("sleep", "60")
    assert await call("process_output", id=id) == f"{id}: running\n(no new output)"
    result = await call.result("process_output", {"id": id, "wait": 0.05, "wait_for": "x"})
    assert "matched" not in result.structured_content
    assert result.content[0].text == f"{id}: running, no match\n(no new output)"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"id": "proc_9"}, "unknown_process"),
        ({"id": ""}, "unknown_process"),
        ({"id": "proc_1", "wait_for": "("}, "bad_pattern"),
        ({"id": "proc_1", "wait": -1}, "invalid_args"),
        ({}, "invalid_args"),
    ],
)
async def test_refuses(call, start, arguments, code):
    await start("sleep", "60")
    assert await call.code("process_output", **arguments) == code


async def test_a_flood_is_cut_to_the_budget(call, start):
    call.tokens = 300
    id = await start("sh", "-c", "seq 1 100000; echo end; exec sleep 60")
    result = await call.result("process_output", {"id": id, "wait_for": "end"})
    assert result.structured_content["dropped_bytes"] > 300_000
    assert len(result.content[0].text) < 2000
    assert "bytes dropped" in result.content[0].text and "tokens cut" in result.content[0].text


async def test_a_bad_pattern_leaves_the_output_unread(call, start):
    id = await start("sh", "-c", "echo one; echo two; exec sleep 60")
    assert await call.code("process_output", id=id, wait_for="two", pattern="(") == "bad_pattern"
    assert "1: one" in await call("process_output", id=id, wait_for="two", pattern="one")
