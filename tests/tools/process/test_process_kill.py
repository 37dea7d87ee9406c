from toolbox_mcp.server.call.exposure import ExposurePolicy


async def test_ends_a_process_and_returns_its_last_output(call, start):
    on_term = "import signal,time\ndef f(*a): print('bye'); raise SystemExit(4)\nsignal.signal(15, f); print('on', flush=True)\n"
    id = await start("python3", "-c", on_term + "time.sleep(60)")
    await call("process_output", id=id, wait_for="on")
    result = await call.result("process_kill", {"id": id})
    assert result.content[0].text == f"Killed {id}\n--- stdout ---\nbye"
    assert result.structured_content == {
        "id": id, "status": "killed", "exit_code": 4, "stdout": "bye\n", "stderr": "", "dropped_bytes": 0,
    }  # fmt: skip
    assert await call("process_list") == "no processes"
    assert await call.code("process_kill", id=id) == "unknown_process"


async def test_tells_the_signal(call, start):
    id = await start("sleep", "60")
    result = await call.result("process_kill", {"id": id})
    assert (result.content[0].text, result.structured_content["signal"]) == (f"Killed {id}", "SIGTERM")
    assert result.structured_content["exit_code"] == 143


async def test_says_when_it_had_ended(call, start, ended):
    id = await start("sh", "-c", "exit 3")
    await ended(id)
    assert await call("process_kill", id=id) == f"{id} had already exited (exit 3)"


async def test_reading_and_ending_do_not_depend_on_the_gate(call):
    call.gate = ExposurePolicy()
    for name in ("process_kill", "process_output"):
        assert await call.code(name, id="proc_1") == "unknown_process"
    assert await call.code("process_start", command="sh") == "exec_disabled"
