import re


async def test_lists_running_and_ended_ones(call, start, ended):
    await start("sleep", "60", name="nap")
    await ended(await start("sh", "-c", "exit 3"))
    first, second = (await call("process_list")).splitlines()
    assert re.fullmatch(r"proc_1 \(nap\)  running  pid \d+  \d+s  sleep 60", first)
    assert re.fullmatch(r"proc_2  exited  pid \d+  \d+s  sh -c 'exit 3'", second)
    rows = (await call.result("process_list", {})).structured_content["processes"]
    assert [(row["id"], row.get("name"), row["status"], row.get("exit_code")) for row in rows] == [
        ("proc_1", "nap", "running", None),
        ("proc_2", None, "exited", 3),
    ]


async def test_a_command_is_shown_on_one_line(call, start):
    argument = "sleep 60\n\x1b[31m # \u202ered"
    result = await call.result("process_start", {"command": "sh", "args": ["-c", argument]})
    shown = "sh -c 'sleep 60<U+000A><U+001B>[31m # <U+202E>red'"
    assert result.content[0].text.endswith(f"): {shown}")
    assert (await call("process_list")).endswith(f"s  {shown}")
    assert result.structured_content["command"] == f"sh -c '{argument}'"


async def test_says_when_there_are_none(call):
    assert await call("process_list") == "no processes"
