import pytest

TESTS = "import unittest\nclass T(unittest.TestCase):\n def test_a(self): pass\n def test_b(self): self.fail('no')\n"


@pytest.mark.parametrize(
    ("arguments", "headline"),
    [
        ({}, "TESTS FAILED: 1 of 2"),
        ({"pattern": "test_a"}, "TESTS PASSED: 1"),
        ({"pattern": "nothing"}, "TESTS: none ran"),
        ({"pattern": "not test_b", "path": "test_x.py"}, "TESTS PASSED: 1"),
        ({"path": "test_x.py::T::test_a"}, "TESTS PASSED: 1"),
        ({"framework": "unittest"}, "TESTS FAILED: 1 of 2"),
        ({"framework": "unittest", "path": "test_x.py"}, "TESTS FAILED: 1 of 2"),
        ({"framework": "unittest", "pattern": "other*.py"}, "TESTS: none ran"),
    ],
)
async def test_runs_what_matches(call, files, arguments, headline):
    files(test_x_dot_py=TESTS)
    assert (await call("python_tests", **arguments)).splitlines()[0] == headline


async def test_no_tests_at_all(call):
    assert (await call("python_tests")).splitlines()[0] == "TESTS: none ran"


@pytest.mark.parametrize("pattern", ["-x", "--help", "-p no:terminal", "--version"])
async def test_a_pattern_is_never_an_option(call, fake, pattern):
    fake("pytest", 'for a; do echo "[$a]"; done\n')
    fake("python3", 'for a; do echo "[$a]"; done\n')
    assert f"[-k{pattern}]" in (await call("python_tests", pattern=pattern)).splitlines()
    assert f"[-p{pattern}]" in (await call("python_tests", pattern=pattern, framework="unittest")).splitlines()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"path": "/etc"}, "path_denied"),
        ({"path": "missing.py"}, "not_found"),
        ({"framework": "nose"}, "invalid_args"),
        ({}, "unavailable"),
    ],
)
async def test_refuses(call, arguments, code):
    call.toolchain_env["PATH"] = "/none"
    assert await call.code("python_tests", **arguments) == code
