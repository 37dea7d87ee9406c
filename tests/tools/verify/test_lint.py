import json

import pytest

from tests.tools.verify.conftest import need

CLEAN, OFFENDING = "# frozen_string_literal: true\n\nputs 'a'\n", "x = 1\n"


@pytest.mark.parametrize(
    ("contents", "headline", "command"),
    [
        pytest.param({"pyproject.toml": "[project]\n[tool.ruff.lint]\nselect = ['F401']\n", "a.py": "import os\nimport sys\n"}, "LINT: offenses found (2)", "ruff check", marks=need("ruff")),
        pytest.param({"ruff.toml": "", "a.py": "x = 1\n"}, "LINT CLEAN", "ruff check", marks=need("ruff")),
        pytest.param({"ruff.toml": "nonsense = [", "a.py": ""}, "LINT ERROR", "ruff check", marks=need("ruff")),
        pytest.param({"a.rb": CLEAN}, "LINT CLEAN", "rubocop --no-color --format=simple", marks=need("rubocop")),
        pytest.param({"a.rb": OFFENDING}, "LINT: offenses found (2)", "rubocop --no-color --format=simple", marks=need("rubocop")),
        pytest.param({"a.rb": CLEAN, ".rubocop.yml": "x: ["}, "LINT ERROR", "rubocop --no-color --format=simple", marks=need("rubocop")),
    ],
)  # fmt: skip
async def test_finds_runs_and_counts(call, project, contents, headline, command):
    for name, text in contents.items():
        (project / name).write_text(text)
    first, second, *_ = (await call("lint")).splitlines()
    assert (first, second) == (headline, f"$ {command}")


@need("ruff")
async def test_offenses_of_ruff_are_listed_as_it_prints_them(call, project):
    (project / "ruff.toml").write_text("[lint]\nselect = ['F']\n")
    (project / "sub").mkdir()
    (project / "sub" / "a.py").write_text("import os\nprint(undefined)\n")
    (project / "b.py").write_text("def (\n")
    lines = (await call("lint")).splitlines()
    assert lines[:4] == ["LINT: offenses found (4)", "$ ruff check", "exit: 1", "--- stdout ---"]
    assert [line.partition(" ")[0] for line in lines[4:]] == [
        "b.py:1:5:",
        "b.py:2:1:",
        "sub/a.py:1:8:",
        "sub/a.py:2:7:",
    ]
    assert "sub/a.py:1:8: F401 [*] `os` imported but unused" in lines


@need("ruff")
async def test_autocorrect_changes_files_and_counts_what_is_left(call, project):
    (project / "ruff.toml").write_text("")
    (project / "a.py").write_text("import os\nprint(undefined)\n")
    assert (await call("lint", autocorrect=True)).splitlines()[0] == "LINT: offenses found (1)"
    assert (project / "a.py").read_text() == "print(undefined)\n"


@need("rubocop")
async def test_autocorrect_of_rubocop(call, project):
    (project / "a.rb").write_text('# frozen_string_literal: true\n\nputs "a"\n')
    assert (await call("lint", autocorrect=True, path="a.rb")).splitlines()[0] == "LINT CLEAN"
    assert (project / "a.rb").read_text() == CLEAN


@pytest.mark.parametrize(
    ("contents", "program"),
    [
        ({".standard.yml": "", "ruff.toml": ""}, "standardrb"),
        ({".ruff.toml": ""}, "ruff"),
        ({"pyproject.toml": "[tool.ruff.lint]\n"}, "ruff"),
        ({"pyproject.toml": "[tool.poetry]\n"}, "ruff"),
        ({"pyproject.toml": "[tool.black]\n"}, "rubocop"),
        ({}, "rubocop"),
        ({"a.py": ""}, "ruff"),
        ({"src/a.py": "", "README.md": ""}, "ruff"),
        ({"a.py": "", "b.rb": ""}, "rubocop"),
        ({"a.py": "", "Rakefile": ""}, "rubocop"),
        ({"a.py": "", ".rubocop.yml": ""}, "rubocop"),
        ({".venv/a.py": "", "vendor/a.py": "", "lib/b.rb": ""}, "rubocop"),
        ({"Gemfile": "gem 'rubocop'\n"}, "bundle exec rubocop"),
        ({"Gemfile": "gem 'rails'\n"}, "rubocop"),
    ],
)
async def test_the_files_say_which_linter(call, fake, project, contents, program):
    for name in ("standardrb", "ruff", "rubocop", "bundle"):
        fake(name, "exit 0\n")
    for name, text in contents.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    first, second, *_ = (await call("lint")).splitlines()
    assert first == "LINT CLEAN" and second.startswith(f"$ {program} ")


@pytest.mark.parametrize(
    ("path", "program"), [("a.py", "ruff"), ("scripts", "ruff"), ("a.rb", "rubocop"), (".", "rubocop")]
)
async def test_what_is_to_be_linted_says_which_linter(call, fake, files, path, program):
    for name in ("ruff", "rubocop"):
        fake(name, "exit 0\n")
    files(a_dot_py="", a_dot_rb="", scripts__a_dot_py="")
    assert (await call("lint", path=path)).splitlines()[1].startswith(f"$ {program} ")


@pytest.mark.parametrize("linter", [None, "rubocop", "standard", "ruff"])
async def test_a_path_that_is_not_there_is_told_before_anything_runs(call, fake, files, project, linter):
    for name in ("standardrb", "ruff", "rubocop"):
        fake(name, f"touch {project}/ran\n")
    files(code_dot_py="")
    answer = await call("lint", path="cod.py", linter=linter)
    assert answer == {"error": "there is no cod.py", "code": "not_found", "hint": "similar: code.py"}
    assert not (project / "ran").exists()


@pytest.mark.parametrize(
    ("corrected", "status", "headline"),
    [
        ([False, True, False], 1, "LINT: offenses found (2)"),
        ([True], 0, "LINT CLEAN"),
        ([], 0, "LINT CLEAN"),
        ([False], 2, "LINT ERROR"),
    ],
)
async def test_standard_is_counted_by_its_report(call, fake, corrected, status, headline):
    report = rubocop_report(*({"corrected": each} for each in corrected))
    fake("standardrb", f"for a; do case $a in --out=*) echo '{report}' > ${{a#--out=}};; esac; done; exit {status}\n")
    assert (await call("lint", linter="standard")).splitlines()[0] == headline


def rubocop_report(*offenses):
    row = {"cop_name": "Style/X", "message": "no", "location": {"line": 3, "column": 1}, "correctable": True}
    return json.dumps({"files": [{"path": "a.rb", "offenses": [row | offense for offense in offenses]}]})


async def test_each_offense_names_its_rule_and_place(call, fake):
    report = rubocop_report(*[{}] * 90, *[{"cop_name": "Lint/Y", "location": {"line": 7, "column": 2}}] * 3)
    fake("standardrb", f"for a; do case $a in --out=*) echo '{report}' > ${{a#--out=}};; esac; done; exit 1\n")
    assert "a.rb:7:2: Lint/Y [correctable] no" in (await call("lint", linter="standard")).splitlines()


async def test_offenses_that_do_not_fit_are_counted_by_rule(call, fake):
    call.tokens = 120
    report = rubocop_report(*[{}] * 90, *[{"cop_name": "Lint/Y", "location": {"line": 7, "column": 2}}] * 3)
    fake("standardrb", f"for a; do case $a in --out=*) echo '{report}' > ${{a#--out=}};; esac; done; exit 1\n")
    answer = await call("lint", linter="standard")
    assert answer.splitlines()[-2:] == ["Style/X: 90 (first: a.rb:3)", "Lint/Y: 3 (first: a.rb:7)"]


UNSEEN = "({} inspected no file: this says nothing about the code)"


@pytest.mark.parametrize(
    ("linter", "contents", "path", "clean"),
    [
        pytest.param("ruff", {}, None, False, marks=need("ruff")),
        pytest.param("ruff", {"a.py": ""}, None, True, marks=need("ruff")),
        # ruff lists these as well, and says nothing of there being no others.
        pytest.param("ruff", {"pyproject.toml": "", "README.md": ""}, None, False, marks=need("ruff")),
        pytest.param("ruff", {"pyproject.toml": ""}, "pyproject.toml", True, marks=need("ruff")),
        pytest.param("ruff", {"ruff.toml": "exclude = ['a.py']", "a.py": "import os"}, None, False, marks=need("ruff")),
        pytest.param("ruff", {"sub/a.txt": "", "a.py": ""}, "sub", False, marks=need("ruff")),
        pytest.param("rubocop", {}, None, False, marks=need("rubocop")),
        pytest.param("rubocop", {"a.rb": CLEAN}, None, True, marks=need("rubocop")),
        pytest.param("rubocop", {"sub/a.txt": "", "a.rb": CLEAN}, "sub", False, marks=need("rubocop")),
    ],
)
async def test_code_that_was_not_inspected_is_not_called_clean(call, project, linter, contents, path, clean):
    for name, text in contents.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    lines = (await call("lint", linter=linter, path=path)).splitlines()
    assert lines[0] == ("LINT CLEAN" if clean else "LINT ERROR")
    assert (lines[-1] == UNSEEN.format(linter)) is not clean


@pytest.mark.parametrize(
    ("summary", "headline"),
    [
        ({"inspected_file_count": 0}, "LINT ERROR"),
        ({"inspected_file_count": 1}, "LINT CLEAN"),
        ({}, "LINT CLEAN"),
    ],
)
async def test_files_of_standard_are_counted_by_its_report(call, fake, summary, headline):
    report = json.dumps({"files": [], "summary": summary})
    fake("standardrb", f"for a; do case $a in --out=*) echo '{report}' > ${{a#--out=}};; esac; done\n")
    lines = (await call("lint", linter="standard")).splitlines()
    assert lines[0] == headline
    assert (lines[-1] == UNSEEN.format("standard")) is (headline == "LINT ERROR")


@pytest.mark.parametrize(
    ("listing", "headline"),
    [
        ("exit 0", "LINT ERROR"),
        ("echo /a/b.py", "LINT CLEAN"),
        ("echo /a/pyproject.toml", "LINT ERROR"),
        ("echo /a/README.md; echo /a/b.pyi", "LINT CLEAN"),
        # A ruff that cannot list files has still found nothing.
        ("exit 2", "LINT CLEAN"),
    ],
)
async def test_files_of_ruff_are_counted_by_its_list(call, fake, listing, headline):
    reporting = "case $a in --output-file=*) echo '[]' > ${a#--output-file=};; esac"
    fake("ruff", f"for a; do [ $a != --show-files ] || {{ {listing}; exit; }}; {reporting}; done\n")
    lines = (await call("lint", linter="ruff")).splitlines()
    assert (lines[0], lines[1]) == (headline, "$ ruff check")


@pytest.mark.parametrize("linter", ["rubocop", "standard", "ruff"])
async def test_a_path_is_never_an_option(call, fake, project, linter):
    (project / "--fix").touch()
    for name in ("standardrb", "ruff", "rubocop"):
        fake(name, 'for a; do echo "[$a]"; done\n')
    assert "[./--fix]" in (await call("lint", linter=linter, path="--fix")).splitlines()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"linter": "eslint"}, "bad_linter"),
        ({"linter": ""}, "unavailable"),
        ({"path": "../x"}, "path_denied"),
        ({"linter": "ruff"}, "unavailable"),
    ],
)
async def test_refuses(call, arguments, code):
    call.toolchain_env["PATH"] = "/none"
    assert await call.code("lint", **arguments) == code


async def test_a_project_that_no_known_linter_is_for_is_refused(call, project):
    (project / "package.json").write_text("{}")
    (project / "a.js").touch()
    refused = await call("lint")
    assert (refused["code"], "npm" in refused["hint"]) == ("bad_linter", True)


@need("ruff")
async def test_nothing_is_fixed_unasked_whatever_the_project_says(call, project):
    (project / "pyproject.toml").write_text("[tool.ruff]\nfix = true\n")
    (project / "a.py").write_text("import os\n")
    assert (await call("lint")).startswith("LINT: offenses found (1)")
    assert (project / "a.py").read_text() == "import os\n"
    assert (await call("lint", autocorrect=True)).startswith("LINT CLEAN")
    assert (project / "a.py").read_text() == ""


@need("ruff")
async def test_of_errors_that_follow_from_a_syntax_error_the_first_are_shown(call, project):
    (project / "a.py").write_text("class A(b:\n" + "    x: int = 1\n" * 20)
    answer = await call("lint", linter="ruff")
    assert answer.count("invalid-syntax") == 3
    assert "more syntax errors behind the first" in answer
