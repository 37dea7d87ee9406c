import pytest


@pytest.fixture
def call(call):
    call.allowed_commands = ("sh", "cat", "sleep", "env", "python3", "absent-program", "true", "yes", "bash", "irb")
    return call


@pytest.fixture
def start(call):
    async def start(*argv, **options):
        """Start a program and return its id."""
        result = await call.result("process_start", {"command": argv[0], "args": list(argv[1:]), **options})
        assert not result.is_error, result.content
        return result.structured_content["id"]

    return start


@pytest.fixture
def ended(call):
    async def ended(id):
        """Wait for the end of a process and return its first line and all its output."""
        text = ""
        while True:
            result = (await call.result("process_output", {"id": id, "wait": 10})).structured_content
            text += result["stdout"]
            if result["status"] != "running":
                return result, text

    return ended
