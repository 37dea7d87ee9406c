from tests.tables import each_row
from toolbox_mcp.sandbox.environment import from_login, inherit, layered, scrub, which

HOST = {
    "PATH": "/bin", "HOME": "/home/x", "LANG": "C", "AWS_SECRET_ACCESS_KEY": "s", "TAVILY_API_KEY": "s", "BRAVE_API_KEY": "s",
    "SEARXNG_URL": "http://u:p@h", "TOOLBOX_TOKEN": "s", "toolbox_token": "s", "EDITOR": "vi",
}  # fmt: skip


def test_a_scrubbed_environment_holds_what_is_passed_and_nothing_else():
    assert scrub(HOST, ["PATH", "LANG", "LC_ALL", "HOME"]) == {"PATH": "/bin", "LANG": "C", "HOME": "/home/x"}


@each_row("name", ["TAVILY_API_KEY", "BRAVE_API_KEY", "SEARXNG_URL", "TOOLBOX_TOKEN", "toolbox_token"])
def test_what_belongs_to_the_server_never_passes(name):
    assert scrub(HOST, [name]) == {}
    assert name not in inherit(HOST)
    assert from_login(f"{name}=s".encode()) == {}


def test_an_inherited_environment_holds_the_rest():
    assert inherit(HOST) == {
        "PATH": "/bin",
        "HOME": "/home/x",
        "LANG": "C",
        "AWS_SECRET_ACCESS_KEY": "s",
        "EDITOR": "vi",
    }


def test_a_login_environment_is_filtered():
    kept = {
        "PATH": "/a:/b", "PATHEXT": ".EXE", "HOME": "/h", "USERPROFILE": "C", "TMP": "t", "TEMP": "t", "TMPDIR": "t", "SHELL": "/bin/zsh", "COMSPEC": "c", "APPDATA": "a",
        "LOCALAPPDATA": "l", "LANG": "C", "LC_ALL": "C", "LC_TIME": "C", "TERM": "xterm", "ASDF_DIR": "d", "PYENV_ROOT": "p", "NVM_DIR": "n", "VOLTA_HOME": "v", "SDKMAN_DIR": "s",
        "GOPATH": "g", "GOBIN": "g", "JAVA_HOME": "j", "PNPM_HOME": "p", "CARGO_HOME": "c", "CONDA_PREFIX": "two\nlines=x",
    }  # fmt: skip
    dropped = {"AWS_SECRET_ACCESS_KEY": "s", "GITHUB_TOKEN": "s", "LCX": "1", "PATHS": "1", "SSH_AUTH_SOCK": "s"}
    output = "\0".join(f"{name}={value}" for name, value in {**kept, **dropped}.items())
    assert from_login(output.encode()) == kept


@each_row("output", [b"Welcome!\nPATH=/a\0HOME=/h\0", b"PATH=/a\0HOME=/h", b"\0\0PATH=/a\0=x\0HOME=/h\0nothing\0"])
def test_a_login_shell_may_print_around_its_variables(output):
    assert from_login(output) == {"PATH": "/a", "HOME": "/h"}


def test_later_layers_win():
    assert layered([{"A": "1", "B": "1"}, {"A": "2"}, {"C": "3", "A": "3"}]) == {"A": "3", "B": "1", "C": "3"}


def test_a_program_is_looked_up_in_absolute_folders_only(tmp_path, monkeypatch):
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").touch(0o755 if folder == "second" else 0o644)
    (tmp_path / "tool").touch(0o755)
    monkeypatch.chdir(tmp_path)
    second = f"{tmp_path}/second"
    assert which("tool", {"PATH": f":.:second:{tmp_path}/first:{second}"}) == f"{second}/tool"
    assert which("tool", {"PATH": ":.:second"}) is None
    assert which("sh", {}) in ("/bin/sh", "/usr/bin/sh")
