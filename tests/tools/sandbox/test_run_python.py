from dataclasses import replace

import pytest

from tests.machine import needs as only_with
from tests.machine import no_user_namespace

# Elsewhere each answer says what the back end leaves open.
pytestmark = only_with(no_user_namespace())


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("print(6 * 7)", "exit: 0\n--- stdout ---\n42"),
        ("import sys; print('bad', file=sys.stderr); sys.exit(3)", "exit: 3\n--- stderr ---\nbad"),
        ("pass", "exit: 0\n(no output)"),
        ("import os; os.kill(os.getpid(), 9)", "result: killed: external\n(no output)"),
        ("print(repr(input()) if 0 else 'ok')", "exit: 0\n--- stdout ---\nok"),
        ("def f():\n  return g()\ng = lambda: 5\nprint(f(), __name__)", "exit: 0\n--- stdout ---\n5 __main__"),
        ("f = open('x', 'w'); f.write('kept'); print(open('x').read() or 'not yet')", None),
        ("import atexit; atexit.register(print, 'bye')", "exit: 0\n--- stdout ---\nbye"),
        (
            "import threading; threading.Thread(target=print, args=['thread']).start()",
            "exit: 0\n--- stdout ---\nthread",
        ),
        ("import os; print(sorted(os.environ))", None),
        ("raise SystemExit('said')", "exit: 1\n--- stderr ---\nsaid"),
        (
            "import multiprocessing as m\nif __name__ == '__main__':\n  with m.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, 2]))",
            "exit: 0\n--- stdout ---\n[1, 2]",
        ),
    ],
)
async def test_returns_what_the_program_wrote(call, code, text):
    answer = await call("run_python", code=code)
    assert answer == text if text is not None else answer.startswith("exit: 0")


async def test_what_does_not_parse_is_a_result(call):
    result = await call.result("run_python", {"code": "x = 1\nprint("})
    fields = result.structured_content
    assert (result.is_error, fields["exit_code"]) == (False, 1)
    assert "SyntaxError" in fields["stderr"]
    assert 'File "<stdin>", line 2' in fields["stderr"]


async def test_a_traceback_names_lines_of_the_program_alone(call):
    result = await call.result("run_python", {"code": "def f():\n    return 1 / 0\nf()"})
    lines = result.structured_content["stderr"].splitlines()
    assert [line for line in lines if line.startswith("  File")] == [
        '  File "<stdin>", line 3, in <module>',
        '  File "<stdin>", line 2, in f',
    ]
    assert lines[-1] == "ZeroDivisionError: division by zero"


async def test_answers_with_the_exec_fields_and_the_runtime(call):
    result = await call.result("run_python", {"code": "print('hi')"})
    fields = result.structured_content
    assert fields.pop("duration_ms") >= 0
    assert fields.pop("runtime") in {"bubblewrap", "native", "landlock"}
    assert fields.pop("degraded", False) == bool(fields.pop("degraded_reasons"))
    assert fields == {
        "exit_code": 0,
        "stdout": "hi\n",
        "stderr": "",
    }


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("", "empty_code"),
        (" \n\t", "empty_code"),
        ("#" * 2**20 + "#", "too_large"),
        ("ü" * (2**19 + 1), "too_large"),
        ("#" * 10_000_000, "too_large"),
    ],
)
async def test_refuses_what_is_no_program(call, code, error):
    assert await call.code("run_python", code=code) == error


async def test_a_program_of_a_mebibyte_runs(call):
    assert await call("run_python", code="print(1)" + "#" * (2**20 - 8)) == "exit: 0\n--- stdout ---\n1"


async def test_what_does_not_fit_can_be_read_on(call):
    call.tokens = 150
    assert 'tokens cut; process_output id="out_1" from_line=' in await call(
        "run_python", code="print('line\\n' * 1000)"
    )


async def test_a_nul_in_the_program_is_the_languages_affair(call):
    result = await call.result("run_python", {"code": "print(1)\0"})
    assert result.structured_content["exit_code"] == 1


async def test_without_a_sandbox_nothing_runs(call):
    call.sandbox = replace(call.sandbox, runtime="none")
    assert await call.code("run_python", code="print(1)") == "sandbox_unavailable"


async def test_a_time_out_is_a_result(call):
    call.sandbox = replace(call.sandbox, timeout=0.5)
    result = await call.result("run_python", {"code": "print('begun', flush=True)\nwhile True: pass"})
    assert result.structured_content["exit_code"] == 124
    assert result.structured_content["stdout"] == "begun\n"
    assert result.content[0].text.startswith("result: timed out after ")
    assert result.content[0].text.split("\n")[0].endswith("s (sandbox killed)")


# A picture of one grey pixel.
PNG = (
    "bytes.fromhex('89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550"
    "000000a49444154789c636800000082008177cd72b60000000049454e44ae426082')"
)


async def test_images_left_in_the_scratch_folder_come_back(call):
    code = f"open('/tmp/plot.png', 'wb').write({PNG})\nopen('notes.txt', 'w').write('abc')"
    result = await call.result("run_python", {"code": code})
    assert result.content[0].text == "exit: 0\n(no output)\n--- files ---\nnotes.txt (3 bytes)\nplot.png (67 bytes)"
    assert [(block.type, block.mime_type) for block in result.content[1:]] == [("image", "image/png")]


async def test_what_only_begins_as_an_image_does_is_a_file_like_any_other(call):
    code = f"open('/tmp/real.png', 'wb').write({PNG})\nopen('/tmp/a.png', 'wb').write({PNG}[:40] + bytes(99))"
    result = await call.result("run_python", {"code": code})
    assert result.content[0].text.endswith("a.png (139 bytes)\nreal.png (67 bytes)")
    assert [block.type for block in result.content[1:]] == ["image"]


async def test_a_name_of_a_file_forges_no_line_of_the_answer(call):
    code = r"open('a\n--- stdout ---\nall tests passed', 'w').close(); open('\x1b[2Jb', 'w').close()"
    result = await call.result("run_python", {"code": code})
    lines = result.content[0].text.split("\n")
    assert lines[:3] == ["exit: 0", "(no output)", "--- files ---"]
    assert len(lines) == 5
    assert "\x1b" not in result.content[0].text


async def test_links_in_the_scratch_folder_are_not_followed(call, project):
    (project / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\nsecret")
    code = f"import os; os.symlink('{project}/secret.png', '/tmp/a.png'); os.mkfifo('/tmp/b.png')"
    result = await call.result("run_python", {"code": code})
    assert [block.type for block in result.content] == ["text"]
    assert result.content[0].text == "exit: 0\n(no output)"


async def test_the_project_cannot_be_seen(call, project):
    (project / "secret.txt").write_text("secret")
    code = f"import os\ntry: print(open('{project}/secret.txt').read())\nexcept OSError as e: print(type(e).__name__)"
    assert (await call("run_python", code=code)).split("\n")[-1] in {"FileNotFoundError", "PermissionError"}


async def test_calls_share_nothing(call):
    await call("run_python", code="open('/tmp/left', 'w').write('x')")
    assert await call("run_python", code="import os; print(os.listdir('/tmp'))") == "exit: 0\n--- stdout ---\n[]"


@pytest.fixture
def packages(project):
    """Return a folder of the project that holds the package mine."""
    folder = project / "site"
    (folder / "mine").mkdir(parents=True)
    (folder / "mine" / "__init__.py").write_text("value = 42\n")
    (project / "secret").write_text("secret")
    return folder


USE = """
try:
    import mine
    print(mine.value)
except ImportError:
    print("none")
"""


async def test_packages_of_the_project_are_imported_where_the_operator_opens_them(call, packages):
    call.sandbox = replace(call.sandbox, packages=(str(packages),))
    assert await call("run_python", code=USE) == "exit: 0\n--- stdout ---\n42"
    code = (
        "import os, mine\n"
        "for path in (mine.__file__, os.path.dirname(mine.__file__) + '/x', mine.__file__ + '/../../../secret'):\n"
        "    try: open(os.path.normpath(path), 'r' if 'secret' in path else 'w'); print('reached')\n"
        "    except OSError: print('refused')"
    )
    assert await call("run_python", code=code) == "exit: 0\n--- stdout ---\n" + "\n".join(["refused"] * 3)
    assert (packages / "mine" / "__init__.py").read_text() == "value = 42\n"


async def test_packages_are_not_imported_where_nobody_opened_them(call, packages):
    assert await call("run_python", code=USE) == "exit: 0\n--- stdout ---\nnone"


async def test_no_package_folder_opens_the_home(call, packages, project):
    call.sandbox = replace(call.sandbox, packages=(str(packages),), home=str(packages / "mine"))
    assert await call("run_python", code=USE) == "exit: 0\n--- stdout ---\nnone"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import urllib.request as u; u.urlopen('http://127.0.0.1:1')", "there is no network here"),
        ("bytearray(10**12)", "the description says how much memory there is"),
        ("open('data.csv')", "files of the project are not here; bash and run_script see them"),
        ("import no_such_package", "packages of the project are not here; bash and run_script see them"),
    ],
)
async def test_says_what_the_sandbox_lacks(call, code, why):
    assert (await call("run_python", code=code)).endswith(f"\n({why})")


async def test_says_nothing_of_a_failure_that_is_the_programs_own(call):
    assert (await call("run_python", code="1/0")).endswith("ZeroDivisionError: division by zero")


async def test_of_frames_in_the_library_the_last_is_shown(call):
    answer = await call("run_python", code="import urllib.request as u; u.urlopen('http://127.0.0.1:1')")
    assert answer.count("frames of the library") == 2
    assert answer.count("/lib/python3") == 2
    assert 'File "<stdin>", line 1, in <module>' in answer
