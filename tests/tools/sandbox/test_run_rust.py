from dataclasses import replace

import pytest

from tests.machine import needs as only_with
from tests.machine import no_user_namespace

# Elsewhere each answer says what the back end leaves open.
pytestmark = only_with(no_user_namespace())


@pytest.fixture(autouse=True)
def _rust(needs):
    needs("rustc")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ('fn main() { println!("{}", 6 * 7); }', "exit: 0\n--- stdout ---\n42"),
        ("fn main() { std::process::exit(3); }", "exit: 3\n(no output)"),
        ("fn main() { std::process::abort(); }", "exit: 134\n(no output)"),
        (
            'fn main() { let s: String = std::io::read_to_string(std::io::stdin()).unwrap(); println!("{s:?}"); }',
            'exit: 0\n--- stdout ---\n""',
        ),
    ],
)
async def test_returns_what_the_program_wrote(call, code, text):
    assert await call("run_rust", code=code) == text


async def test_what_does_not_compile_is_a_result(call):
    result = await call.result("run_rust", {"code": 'fn main() { let x: i32 = "a"; }'})
    fields = result.structured_content
    assert (result.is_error, fields["exit_code"], fields["stdout"]) == (False, 1, "")
    assert "error[E0308]" in fields["stderr"]
    assert "main.rs:1:26" in fields["stderr"]


async def test_warnings_stand_before_what_the_program_writes_to_stderr(call):
    code = 'fn main() { let unused = 1; eprintln!("own words"); println!("out"); }'
    fields = (await call.result("run_rust", {"code": code})).structured_content
    assert fields["stdout"] == "out\n"
    assert fields["stderr"].startswith("warning: unused variable")
    assert fields["stderr"].endswith("own words\n")


async def test_a_missing_compiler_is_unavailable(call):
    call.sandbox = replace(call.sandbox, env={"PATH": "/nonexistent"})
    assert await call.code("run_rust", code="fn main() {}") == "unavailable"


@pytest.mark.parametrize(
    ("code", "error"), [("", "empty_code"), (" \n", "empty_code"), ("/" * 2**20 + "/", "too_large")]
)
async def test_refuses_what_is_no_program(call, code, error):
    assert await call.code("run_rust", code=code) == error
