import json
import os
from pathlib import Path

import pytest

from tests.tables import each_row
from tests.tools.verify.conftest import need
from toolbox_mcp.tools.settings import ToolSettings

PYTEST = "def test_a(): pass\ndef test_b(): assert 1 == 2\ndef test_c(): pass\nimport pytest\n@pytest.mark.skip\ndef test_d(): pass\n"
UNITTEST = "import unittest\nclass T(unittest.TestCase):\n def test_a(self): pass\n def test_b(self): self.fail('no')\n def test_c(self): 1/0\n @unittest.skip('x')\n def test_d(self): pass\n"
RSPEC = "describe 'x' do\n it('a') { }\n it('b') { expect(1).to eq 2 }\n it('c')\nend\n"
MINITEST = "require 'minitest/autorun'\nclass T < Minitest::Test\n def test_a; assert true; end\n def test_b; assert_equal 1, 2; end\n def test_c; skip; end\n def test_d; raise 'x'; end\nend\n"
RAKEFILE = "require 'rake/testtask'\nRake::TestTask.new { |t| t.pattern = 'test/*_test.rb' }\n"
CARGO = '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n'
RUST = "#[test] fn a() {}\n#[test] fn b() { assert_eq!(1, 2) }\n#[test] #[ignore] fn c() {}\n"
NODE = '{"scripts": {"test": "node --test"}}'
NODE_TEST = "const t = require('node:test'); t('a', () => {}); t('b', () => { throw new Error('no') });\n"


def lines(answer):
    assert isinstance(answer, str), answer
    return answer.splitlines()


@pytest.mark.parametrize(
    ("contents", "headline", "command"),
    [
        pytest.param({"pytest.ini": "[pytest]\n", "test_x.py": PYTEST}, "TESTS FAILED: 1 of 3, 1 skipped", "pytest -q --color=no"),
        pytest.param({"conftest.py": "", "test_x.py": "def test_a(): pass\n"}, "TESTS PASSED: 1", "pytest -q --color=no"),
        pytest.param({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "TESTS: none ran", "pytest -q --color=no"),
        pytest.param({"conftest.py": "", "test_x.py": "1/0\n"}, "TESTS FAILED: 1 of 1", "pytest -q --color=no"),
        pytest.param({"conftest.py": "1/0\n"}, "TESTS FAILED: exit 4", "pytest -q --color=no"),
        pytest.param({"test_x.py": UNITTEST}, "TESTS FAILED: 2 of 3, 1 skipped", "python3 -m unittest discover -s. '-ptest*.py' -t."),
        pytest.param({"tests/test_x.py": "import unittest\nclass T(unittest.TestCase):\n def test_a(self): pass\n"}, "TESTS PASSED: 1", "python3 -m unittest discover -stests '-ptest*.py'"),
        pytest.param({"tests/x.txt": ""}, "TESTS: none ran", "python3 -m unittest discover -stests '-ptest*.py'"),
        pytest.param({"spec/x_spec.rb": RSPEC}, "TESTS FAILED: 1 of 2, 1 skipped", "rspec --no-color --format progress", marks=need("rspec")),
        pytest.param({"spec/x_spec.rb": "describe('x') { it('a') { } }"}, "TESTS PASSED: 1", "rspec --no-color --format progress", marks=need("rspec")),
        pytest.param({".rspec": ""}, "TESTS: none ran", "rspec --no-color --format progress", marks=need("rspec")),
        pytest.param({"spec/x_spec.rb": "raise 'x'"}, "TESTS FAILED: 1 of 1", "rspec --no-color --format progress", marks=need("rspec")),
        pytest.param({"test/x_test.rb": MINITEST, "Rakefile": RAKEFILE}, "TESTS FAILED: 2 of 3, 1 skipped", "rake test", marks=need("rake")),
        pytest.param({"Cargo.toml": CARGO, "src/lib.rs": RUST}, "TESTS FAILED: 1 of 2, 1 skipped", "cargo test --color=never", marks=need("cargo")),
        pytest.param({"package.json": NODE, "x.test.js": NODE_TEST}, "TESTS FAILED: 1 of 2", "npm test", marks=need("npm", "node")),
    ],
)  # fmt: skip
async def test_finds_runs_and_counts(call, project, contents, headline, command):
    for name, text in contents.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    first, second, *rest = lines(await call("run_tests"))
    assert (first, second) == (headline, f"$ {command}")
    assert rest[0].startswith("exit: ")


async def test_order_of_detection(call, fake, project):
    for program in ("rspec", "rake", "pytest", "cargo", "go", "npm", "python3"):
        fake(program, "exit 9\n")
    markers = [
        ("test_x.py", "python3"), ("package.json", "npm"), ("go.mod", "go"), ("Cargo.toml", "cargo"), ("tox.ini", "pytest"),
        ("test/x", "pytest"), ("Rakefile", "rake"), (".rspec", "rspec"),
    ]  # fmt: skip
    for name, program in markers:
        file = project / name
        file.parent.mkdir(exist_ok=True)
        file.write_text({"package.json": NODE, "tox.ini": "[pytest]"}.get(name, ""))
        first, second, *_ = lines(await call("run_tests"))
        assert (first, second.split()[1]) == ("TESTS FAILED: exit 9", program)


async def test_a_byte_order_mark_does_not_hide_what_a_project_file_says(call, fake, project):
    fake("npm", "exit 9\n")
    (project / "package.json").write_text("\ufeff" + NODE)
    assert lines(await call("run_tests"))[1] == "$ npm test"


async def test_a_gemfile_means_bundle_exec(call, fake, files):
    fake("bundle", 'echo "$@"\n')
    files(Gemfile="", _dot_rspec="")
    first, second, *_ = lines(await call("run_tests"))
    assert (first, second) == ("TESTS PASSED: exit 0", "$ bundle exec rspec --no-color --format progress")


async def test_go_is_counted_by_its_events(call, fake, files):
    events = [
        '{"Action":"run","Package":"p","Test":"TestA"}', '{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA\\n"}',
        '{"Action":"pass","Package":"p","Test":"TestA"}', '{"Action":"fail","Package":"p","Test":"TestB"}', '{"Action":"skip","Package":"p","Test":"TestC"}',
        '{"Action":"output","Package":"p","Output":"FAIL\\n"}', '{"Action":"fail","Package":"p"}', "not json",
    ]  # fmt: skip
    fake("go", "cat <<'EOF'\n" + "\n".join(events) + "\nEOF\nexit 1\n")
    files(go_dot_mod="")
    assert lines(await call("run_tests")) == [
        "TESTS FAILED: 1 of 2, 1 skipped", "$ go test -json ./...", "exit: 1", "--- stdout ---", "FAIL", "not json",
    ]  # fmt: skip


@each_row(
    ("framework", "path", "arguments"),
    [
        ("pytest", "-x.py", ["./-x.py"]),
        ("pytest", "tests/a.py::test_b", ["tests/a.py::test_b"]),
        ("rspec", "spec/a_spec.rb:12", ["spec/a_spec.rb:12"]),
        ("rspec", "--version", ["./--version"]),
        ("minitest", "-e", ["TEST=./-e"]),
        ("npm", "--help", ["--", "./--help"]),
        ("cargo", "tests/a.rs", ["--test=a"]),
        ("cargo", "crate", ["test"]),
        ("go", "-d", ["./-d/..."]),
        ("go", ".", ["./..."]),
        ("unittest", "--help", ["-s./--help"]),
        ("minitest", "test/**/a_*.rb", ["TEST=test/**/a_*.rb"]),
        ("rspec", "spec/a_spec.rb[1:2,1:3]", ["spec/a_spec.rb[1:2,1:3]"]),
        ("pytest", "tests/a.py::T::test_b[x/y]", ["tests/a.py::T::test_b[x/y]"]),
        ("npm", "a.test.js:3", ["--", "a.test.js:3"]),
        ("cargo", "crate/src/lib.rs", ["test"]),
        ("cargo", "crate/Cargo.toml", ["test"]),
        ("go", "pkg/a_test.go", ["./pkg/..."]),
        ("go", "pkg/...", ["./pkg/..."]),
        ("go", "...", ["./..."]),
    ],
)
async def test_a_path_is_never_an_option(call, fake, project, framework, path, arguments):
    for name in ("tests/a.py", "tests/a.rs", "spec/a_spec.rb", "crate/Cargo.toml", "crate/src/lib.rs", "pkg/a_test.go"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    for name in ("-x.py", "a.test.js", "--version", "-e", "--help"):
        (project / name).touch()
    (project / "-d").mkdir(exist_ok=True)
    for program in ("rspec", "rake", "pytest", "cargo", "go", "npm", "python3"):
        fake(program, 'for a; do echo "[$a]"; done\n')
    answer = lines(await call("run_tests", framework=framework, path=path))
    for argument in arguments:
        assert f"[{argument}]" in answer


@pytest.mark.parametrize("framework", [None, "rspec", "minitest", "pytest", "unittest", "npm", "cargo", "go"])
@pytest.mark.parametrize(
    ("path", "error", "hint"),
    [
        ("nope", "there is no nope", "glob finds files by name"),
        ("tests/test_b.py", "there is no tests/test_b.py", "similar: tests/test_a.py"),
        ("tests/test_a.py/x", "there is no tests/test_a.py/x", "glob finds files by name"),
    ],
)
async def test_a_path_that_is_not_there_is_told_before_anything_runs(
    call, fake, files, project, framework, path, error, hint
):
    for program in ("rspec", "rake", "pytest", "cargo", "go", "npm", "python3"):
        fake(program, f"touch {project}/ran\n")
    files(tests__test_a_dot_py="")
    assert await call("run_tests", path=path, framework=framework) == {
        "error": error,
        "code": "not_found",
        "hint": hint,
    }
    assert not (project / "ran").exists()


async def test_a_path_that_is_not_there_is_told_before_a_framework_is_looked_for(call):
    assert await call.code("run_tests", path="nope") == "not_found"


@pytest.mark.parametrize(
    ("framework", "path", "error"),
    [
        ("pytest", "nope.py::test_a", "there is no nope.py"),
        ("rspec", "spec/no_spec.rb:12", "there is no spec/no_spec.rb"),
        ("unittest", "tests.test_a", "there is no tests.test_a"),
    ],
)
async def test_a_choice_among_tests_of_a_missing_file_names_the_file(call, files, framework, path, error):
    files(tests__test_a_dot_py="")
    answer = await call("run_tests", path=path, framework=framework)
    assert (answer["code"], answer["error"]) == ("not_found", error)


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        ({}, "unittest looks in tests and packages below it for test*.py with TestCase classes"),
        ({"path": "tests/test_a.py"}, "unittest looks in tests/test_a.py for TestCase classes"),
        ({"path": "other"}, "unittest looks in other and packages below it for test*.py with TestCase classes"),
    ],
)
async def test_when_unittest_finds_nothing_it_is_told_what_it_looks_for(call, files, arguments, note):
    files(tests__test_a_dot_py="def test_a(): pass\n", other__x_dot_py="")
    first, *_, last = lines(await call("run_tests", framework="unittest", **arguments))
    assert (first, last) == ("TESTS: none ran", f"({note}; framework=pytest finds functions too)")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "no_tests"),
        ({"path": "../x"}, "path_denied"),
        ({"framework": "jest"}, "invalid_args"),
        ({"framework": "go"}, "unavailable"),
    ],
)
async def test_refuses(call, arguments, code):
    call.toolchain_env["PATH"] = "/usr/bin:/bin" if code != "unavailable" else "/none"
    assert await call.code("run_tests", **arguments) == code


@pytest.mark.parametrize("framework", ["rspec", "minitest", "pytest", "unittest", "npm", "cargo", "go"])
async def test_a_runner_that_is_not_installed_is_unavailable(call, framework):
    call.toolchain_env["PATH"] = "/none"
    assert await call.code("run_tests", framework=framework) == "unavailable"


@pytest.mark.parametrize(
    "summary",
    [
        "# tests 3\n# pass 2\n# fail 1\n",
        "\u2139 tests 3\n\u2139 pass 2\n\u2139 fail 1\n",
        "\x1b[34m\u2139 pass 2\x1b[39m\n\x1b[34m\u2139 fail 1\x1b[39m\n",
        "Tests:       1 failed, 2 passed, 3 total\n",
        "\x1b[2m      Tests \x1b[22m \x1b[31m1 failed\x1b[39m | \x1b[32m2 passed\x1b[39m (3)\n",
        "\x1b[92m \x1b[0m\x1b[32m 2 passing\x1b[0m\x1b[90m (4ms)\x1b[0m\n\x1b[31m  1 failing\x1b[0m\n",
    ],
)
async def test_the_usual_runners_behind_npm_are_counted(call, fake, project, summary):
    (project / "said").write_text("noise\n" + summary)
    fake("npm", "cat said; exit 1\n")
    assert lines(await call("run_tests", framework="npm"))[0] == "TESTS FAILED: 1 of 3"


async def test_failures_that_a_script_swallows_are_failures(call, fake):
    fake("npm", "echo '# pass 2'; echo '# fail 1'; exit 0\n")
    first, _, status, *_ = lines(await call("run_tests", framework="npm"))
    assert (first, status) == ("TESTS FAILED: 1 of 3", "exit: 0")


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.cfg", "package.json"])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
async def test_a_project_file_that_is_no_file_says_nothing(call, project, name, make):
    make(project / name)
    assert await call.code("run_tests") == "no_tests"


async def test_a_suite_that_takes_too_long_is_stopped(call, files):
    call.settings = ToolSettings(toolchain_timeout=1)
    files(conftest_dot_py="", test_x_dot_py="import time\ndef test_a(): time.sleep(60)\n")
    first, _, third, *_ = lines(await call("run_tests"))
    assert first == "TESTS TIMED OUT after 1s" and third == "result: timed out after 1s (killed)"


async def test_runs_with_the_full_environment(call, fake, files):
    fake("pytest", "env\n")
    call.toolchain_env["PROJECT_SETTING"] = "kept"
    files(conftest_dot_py="")
    assert "PROJECT_SETTING=kept" in lines(await call("run_tests"))


async def test_the_projects_own_environment_comes_first(call, project):
    own = project / ".venv" / "bin" / "pytest"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\necho own\n")
    own.chmod(0o755)
    assert "own" in lines(await call("run_tests", framework="pytest"))


async def test_the_nearest_project_decides_framework_and_folder(call, fake, files):
    for program in ("rspec", "pytest", "npm", "python3"):
        fake(program, 'echo "$0 $@" | sed "s:.*/::"; pwd | sed "s:.*/::"\n')
    files(
        api__pyproject_dot_toml="[tool.pytest.ini_options]\n",
        api__tests__test_a_dot_py="",
        web__package_dot_json=NODE,
        web__a_dot_test_dot_js="",
        lib__spec__a_spec_dot_rb="",
    )
    told = {}
    for path in (
        "api",
        "api/tests",
        "api/tests/test_a.py::test_b",
        "web",
        "web/a.test.js",
        "lib",
        "lib/spec/a_spec.rb:3",
    ):
        _, command, *rest = lines(await call("run_tests", path=path))
        told[path] = (command.removeprefix("$ "), rest[-1])
    quiet = "pytest -q --color=no"
    assert told == {
        "api": (f"{quiet}   (in api)", "api"),
        "api/tests": (f"{quiet} tests   (in api)", "api"),
        "api/tests/test_a.py::test_b": (f"{quiet} tests/test_a.py::test_b   (in api)", "api"),
        "web": ("npm test   (in web)", "web"),
        "web/a.test.js": ("npm test -- a.test.js   (in web)", "web"),
        "lib": ("rspec --no-color --format progress   (in lib)", "lib"),
        "lib/spec/a_spec.rb:3": ("rspec --no-color --format progress spec/a_spec.rb:3   (in lib)", "lib"),
    }
    refused = await call("run_tests")
    assert (refused["code"], refused["hint"]) == ("no_tests", "path=api or path=lib or path=web runs the tests there")


@pytest.mark.parametrize(
    ("framework", "script", "arguments"),
    [
        ("pytest", "", ["[-kname]"]),
        ("unittest", "", ["[-kname]"]),
        ("rspec", "", ["[--example=name]"]),
        ("minitest", "", ["[TESTOPTS=--name=/name/]"]),
        ("cargo", "", ["[name]"]),
        ("go", "", ["[-run=name]"]),
        ("npm", "jest", ["[-t]", "[name]"]),
        ("npm", "npx vitest run", ["[-t]", "[name]"]),
        ("npm", "node_modules/.bin/mocha", ["[--grep]", "[name]"]),
        ("npm", "node --test", ["[--test-name-pattern]", "[name]"]),
    ],
)
async def test_tests_are_chosen_by_name_in_each_frameworks_way(call, fake, files, framework, script, arguments):
    for program in ("rspec", "rake", "pytest", "cargo", "go", "npm", "python3"):
        fake(program, 'for a; do echo "[$a]"; done\n')
    files(package_dot_json=json.dumps({"scripts": {"test": script}}))
    answer = lines(await call("run_tests", framework=framework, filter="name"))
    for argument in arguments:
        assert argument in answer


async def test_projects_are_named_two_levels_down(call, files):
    files(
        packages__a__package_dot_json='{"scripts": {"test": "x"}}',
        apps__b__c__package_dot_json='{"scripts": {"test": "x"}}',
    )
    assert (await call("run_tests"))["hint"] == "path=packages/a runs the tests there"


async def test_of_scripts_that_run_scripts_the_runner_gets_the_arguments(call, fake, files):
    fake("npm", "exit 0\n")
    scripts = {"test": "npm run unit && npm run lint", "unit": "mocha", "lint": "xo"}
    files(package_dot_json=json.dumps({"scripts": scripts}), test_dot_js="")
    assert lines(await call("run_tests", filter="name"))[1] == "$ npm run unit -- --grep name"
    assert lines(await call("run_tests", path="test.js"))[1] == "$ npm run unit -- test.js"
    assert lines(await call("run_tests"))[1] == "$ npm test"


async def test_what_cannot_be_chosen_by_name_is_refused(call, files):
    files(package_dot_json='{"scripts": {"test": "make check"}}')
    refused = await call("run_tests", filter="name")
    assert refused["code"] == "invalid_args" and "make check" in refused["error"]


@pytest.mark.parametrize(
    ("framework", "program", "said", "reason"),
    [
        ("npm", "npm", "sh: 1: mocha: not found", "mocha is not installed: install the dependencies (npm install, pip install)"),
        ("npm", "npm", "Error: Cannot find module 'chai'", "chai is missing: npm install"),
        ("rspec", "rspec", "Could not find rack-3.0 in any of the sources", 'gems are missing: bundle {"action": "install"}'),
        ("pytest", "pytest", "E   SyntaxError: invalid syntax", "SyntaxError: invalid syntax"),
        ("cargo", "cargo", "error: could not compile `x`", "the code does not compile"),
        ("pytest", "pytest", "E   ModuleNotFoundError: No module named 'mcp'", "mcp is not installed where the tests run: install the dependencies"),
        ("pytest", "pytest", "/usr/bin/python3: No module named pytest", "pytest is not installed: pip install pytest"),
    ],
)  # fmt: skip
async def test_what_kept_tests_from_running_is_the_headline(call, fake, framework, program, said, reason):
    fake(program, f"cat <<'EOF' >&2\n{said}\nEOF\nexit 127\n")
    assert lines(await call("run_tests", framework=framework))[0] == f"TESTS DID NOT RUN: {reason}"


async def test_a_file_of_tests_that_cannot_be_imported_did_not_run(call, files):
    files(tests__test_a_dot_py="import no_such_module\n\n\ndef test_a(): pass\n")
    first = lines(await call("run_tests", framework="pytest"))[0]
    assert first == "TESTS DID NOT RUN: no_such_module is not installed where the tests run: install the dependencies"


async def test_frames_of_a_runner_that_did_not_start_are_counted(call, fake):
    frames = "".join(f"\tfrom /usr/lib/{name}.rb:1:in `load'\n" for name in "abcdefgh")
    fake("rspec", f"cat <<'EOF' >&2\nrequire: cannot load such file -- rspec/core (LoadError)\n{frames}EOF\nexit 1\n")
    answer = lines(await call("run_tests", framework="rspec"))
    assert answer[-3:] == [
        "\tfrom /usr/lib/a.rb:1:in `load'",
        "\tfrom /usr/lib/b.rb:1:in `load'",
        "    ... 6 more frames",
    ]


@pytest.mark.parametrize(
    ("name", "text", "framework"),
    [
        ("test_a.py", "def test_a(): pass\n", "pytest"),
        ("a_test.py", "async def test_a(): pass\n", "pytest"),
        ("tests/test_a.py", "import pytest\nclass TestA: pass\n", "pytest"),
        ("test_a.py", "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n", "unittest"),
    ],
)
async def test_what_only_pytest_runs_is_run_by_it(call, project, fake, name, text, framework):
    for program in ("pytest", "python3"):
        fake(program, "exit 0\n")
    file = project / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    assert framework in lines(await call("run_tests"))[1]


async def test_a_status_behind_tests_that_passed_is_told(call, fake):
    fake("npm", "echo '# pass 16'; exit 1\n")
    assert lines(await call("run_tests", framework="npm"))[0] == "TESTS FAILED: exit 1, 16 passed"
