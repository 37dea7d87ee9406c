import pytest

from tests.tools.verify.conftest import need


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        *(({"action": action}, action) for action in ("install", "update", "outdated", "check", "lock")),
        ({"action": "add", "gem": "rack"}, "add rack"),
        ({"action": "update", "gem": "rack-test_1.0"}, "update rack-test_1.0"),
    ],
)
async def test_runs_bundler(call, fake, files, arguments, command):
    fake("bundle", 'echo "ran $@"\n')
    files(Gemfile="")
    action = arguments["action"]
    assert (
        await call("bundle", **arguments)
        == f"BUNDLE OK: {action}\n$ bundle {command}\nexit: 0\n--- stdout ---\nran {command}"
    )


async def test_a_failure_is_a_result(call, fake, files):
    fake("bundle", "echo no >&2; exit 7\n")
    files(Gemfile="")
    assert await call("bundle", action="check") == "BUNDLE FAILED: check\n$ bundle check\nexit: 7\n--- stderr ---\nno"


@need("bundle")
@pytest.mark.parametrize(
    ("gemfile", "headline"), [("", "BUNDLE OK: check"), ("gem 'no-such-gem-here'\n", "BUNDLE FAILED: check")]
)
async def test_the_real_one(call, files, gemfile, headline):
    files(Gemfile=gemfile)
    assert (await call("bundle", action="check")).splitlines()[0] == headline


@pytest.mark.parametrize(
    ("arguments", "gemfile", "code"),
    [
        ({"action": "exec"}, False, "bad_action"),
        ({"action": "check"}, False, "no_gemfile"),
        ({"action": "add"}, True, "bad_gem"),
        ({"action": "add", "gem": "-x"}, True, "bad_gem"),
        ({"action": "add", "gem": "a b"}, True, "bad_gem"),
        ({"action": "add", "gem": "a\n"}, True, "bad_gem"),
        ({"action": "add", "gem": ""}, True, "bad_gem"),
        ({"action": "check", "gem": "rack"}, True, "bad_gem"),
        ({"action": "check"}, True, "unavailable"),
        ({}, True, "invalid_args"),
    ],
)
async def test_refuses(call, files, arguments, gemfile, code):
    call.toolchain_env["PATH"] = "/none"
    if gemfile:
        files(Gemfile="")
    assert await call.code("bundle", **arguments) == code
