"""Many calls on one file at a time: each of them lands or is refused, and none is lost."""

import os

import anyio


async def all_at_once(calls):
    """Await some calls at the same time and return their results in order."""
    results = [None] * len(calls)

    async def one(index, awaitable):
        results[index] = await awaitable

    async with anyio.create_task_group() as group:
        for index, awaitable in enumerate(calls):
            group.start_soon(one, index, awaitable)
    return results


async def test_twenty_edits_of_one_file_all_land(call, project):
    (project / "f").write_text("".join(f"line {n};\n" for n in range(20)))
    await call.client()
    results = await all_at_once(
        [
            call.result("edit_file", {"path": "f", "old_string": f"line {n};", "new_string": f"done {n};"})
            for n in range(20)
        ]
    )
    assert not any(result.is_error for result in results)
    assert (project / "f").read_text() == "".join(f"done {n};\n" for n in range(20))


async def test_edits_of_every_kind_on_one_file_all_land(call, project):
    (project / "f").write_text("".join(f"<{n}>\n" for n in range(40)))
    await call.client()
    calls = []
    for n in range(0, 40, 4):
        calls += [
            call.result("edit_file", {"path": "f", "old_string": f"<{n}>", "new_string": f"[{n}]"}),
            call.result("multi_edit", {"path": "f", "edits": [{"old_string": f"<{n + 1}>", "new_string": f"[{n + 1}]"}]}),
            call.result("edit_lines", {"path": "f", "operation": "replace", "match_lines": [f"<{n + 2}>"], "lines": [f"[{n + 2}]"]}),
            call.result("replace_in_files", {"pattern": f"<{n + 3}>", "replacement": f"[{n + 3}]"}),
        ]  # fmt: skip
    results = await all_at_once(calls)
    text = (project / "f").read_text()
    for n, result in enumerate(results):
        if result.is_error:
            assert n % 4 == 3, result
            assert result.structured_content["code"] == "file_changed"
        assert (f"[{n}]\n" in text) == (not result.is_error)
        assert (f"<{n}>\n" in text) == result.is_error
    assert sorted(os.listdir(project)) == ["f"]


async def test_all_parallel_edits_are_undone_one_after_the_other(call, project):
    before = "".join(f"line {n};\n" for n in range(20))
    (project / "f").write_text(before)
    await call.client()
    await all_at_once(
        [
            call.result("edit_file", {"path": "f", "old_string": f"line {n};", "new_string": f"done {n};"})
            for n in range(20)
        ]
    )
    results = await all_at_once([call.result("undo", {}) for _ in range(20)])
    assert not any(result.is_error for result in results), results
    assert (project / "f").read_text() == before
    assert await call.code("undo") == "not_found"


async def test_only_one_of_many_wins_where_each_names_the_state_it_knows(call, project):
    (project / "f").write_text("old")
    tag = (await call.result("read_file", {"path": "f"})).meta["etag"]
    results = await all_at_once(
        [call.result("write_file", {"path": "f", "content": f"{n}", "expected_etag": tag}) for n in range(20)]
    )
    winners = [n for n, result in enumerate(results) if not result.is_error]
    assert len(winners) == 1
    assert (project / "f").read_text() == f"{winners[0]}"
    assert {r.structured_content["code"] for r in results if r.is_error} == {"file_changed"}


async def test_moves_and_deletes_race_and_nothing_is_lost(call, project):
    (project / "f").write_text("content")
    await call.client()
    results = await all_at_once(
        [call.result("move_file", {"source": "f", "destination": f"to{n}"}) for n in range(10)]
        + [call.result("delete_file", {"path": "f"}) for _ in range(10)]
    )
    assert sum(not result.is_error for result in results) == 1
    assert {r.structured_content["code"] for r in results if r.is_error} == {"not_found"}
    kept = [path for path in project.rglob("*") if path.is_file() and path.name != ".gitignore"]
    assert [path.read_text() for path in kept] == ["content"]
