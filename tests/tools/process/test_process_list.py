import re


async def test_lists_running_and_ended_ones(call, start, ended):
    await start("sleep", "60", name="nap")
    await ended(await start("sh", "-c", "exit 3"))
    first, second = (await call("process_list")).splitlines()
    assert re.fullmatch(r"proc_1  running  pid \d+  \d+s  sleep 60", first)
    assert re.fullmatch(r"proc_2  exited  pid \d+  \d+s  sh -c 'exit 3'", second)
    rows = (await call.result("process_list", {})).structured_content["processes"]
    assert [(row["id"], row["name"], row["status"], row["exit_code"]) for row in rows] == [
        ("proc_1", "nap", "running", None),
        ("proc_2", None, "exited", 3),
    ]


async def test_says_when_there_are_none(call):
    assert await call("process_list") == "no processes"
