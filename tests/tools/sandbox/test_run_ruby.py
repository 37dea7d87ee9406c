import pytest

from tests.machine import needs as only_with
from tests.machine import no_user_namespace

# Elsewhere each answer says what the back end leaves open.
pytestmark = only_with(no_user_namespace())


@pytest.fixture(autouse=True)
def _ruby(needs):
    needs("ruby")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("puts 6 * 7", "exit: 0\n--- stdout ---\n42"),
        ("exit 3", "exit: 3\n(no output)"),
        ("Process.kill :KILL, $$", "result: killed: external\n(no output)"),
        ("require 'json'; puts JSON.generate([1])", "exit: 0\n--- stdout ---\n[1]"),
    ],
)
async def test_returns_what_the_program_wrote(call, code, text):
    assert await call("run_ruby", code=code) == text


async def test_what_does_not_parse_is_a_result(call):
    result = await call.result("run_ruby", {"code": "puts("})
    assert (result.is_error, result.structured_content["exit_code"]) == (False, 1)
    assert "syntax error" in result.structured_content["stderr"]


@pytest.mark.parametrize(
    ("code", "error"), [("", "empty_code"), (" \n", "empty_code"), ("#" * 2**20 + "#", "too_large")]
)
async def test_refuses_what_is_no_program(call, code, error):
    assert await call.code("run_ruby", code=code) == error
