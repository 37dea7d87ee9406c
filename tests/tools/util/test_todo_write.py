import pytest

ONE = {"content": "one", "status": "pending"}


async def test_replaces_the_list_and_counts(call):
    await call("todo_write", todos=[ONE])
    result = await call.result(
        "todo_write",
        {"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}, ONE]},
    )
    assert result.content[0].text == "[x] a\n[~] b\n[ ] one"
    assert result.structured_content == {
        "todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}, ONE],
        "counts": {"pending": 1, "in_progress": 1, "completed": 1},
    }


async def test_an_empty_list_is_a_result(call):
    assert await call("todo_write", todos=[]) == "(no tasks)"


@pytest.mark.parametrize(
    ("todos", "code"),
    [
        ("nonsense", "bad_todos"),
        ({}, "bad_todos"),
        ([1], "bad_todos"),
        ([{"status": "pending"}], "bad_todos"),
        ([{"content": "", "status": "pending"}], "bad_todos"),
        ([{"content": "x" * 1001, "status": "pending"}], "bad_todos"),
        ([ONE] * 201, "bad_todos"),
        ([{"content": "a", "status": "done"}], "bad_status"),
        ([{"content": "a"}], "bad_status"),
    ],
)
async def test_a_malformed_list_is_refused(call, todos, code):
    assert await call.code("todo_write", todos=todos) == code


async def test_a_missing_list_is_invalid(call):
    assert await call.code("todo_write") == "invalid_args"


async def test_fields_that_models_add_are_ignored(call):
    todos = [ONE | {"id": "1", "activeForm": "Doing one", "priority": "high"}]
    assert await call("todo_write", todos=todos) == "[ ] one"


async def test_the_list_is_a_resource_of_its_session(call):
    client = await call.client()
    assert [str(each.uri) for each in (await client.list_resources()).resources] == ["toolbox://map"]
    await call("todo_write", todos=[ONE])
    assert [str(resource.uri) for resource in (await client.list_resources()).resources] == [
        "toolbox://map",
        "toolbox://todos",
    ]
    assert (await client.read_resource("toolbox://todos")).contents[0].text == "[ ] one"
