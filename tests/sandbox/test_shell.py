import os
import stat
import sys

import pytest

from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.sandbox.linux.zygote_client import Zygote
from toolbox_mcp.sandbox.shell import IDLE, SESSIONS, Shell, ShellRunner, ShellSession, ShellSessions

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs do not run on Windows")

PATH = "/usr/local/bin:/usr/bin:/bin"


def runner(tmp_path, **options):
    host = {"PATH": PATH, "HOME": str(tmp_path), **options.pop("host", {})}
    zygote = options.pop("zygote", None) or Zygote()
    return ShellRunner(zygote, cwd=str(tmp_path), host=host, env=options.pop("env", {"PATH": PATH}), **options)


@pytest.fixture
def fake(tmp_path):
    def fake(name, text="#!/bin/sh\n"):
        file = tmp_path / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return str(file)

    return fake


@pytest.mark.parametrize(
    ("shell", "argv"),
    [
        (Shell("bash", "/b/bash"), ["/b/bash", "-c", "x"]),
        (Shell("fish", "/b/fish"), ["/b/fish", "-c", "x"]),
        (Shell("pwsh", "/b/pwsh"), ["/b/pwsh", "-NoLogo", "-NonInteractive", "-NoProfile", "-Command", "x"]),
        (Shell("powershell", "p"), ["p", "-NoLogo", "-NonInteractive", "-NoProfile", "-Command", "x"]),
    ],
)
def test_each_shell_is_called_in_its_own_way(shell, argv):
    assert shell.argv("x") == argv


def test_the_users_shell_comes_first(tmp_path, fake):
    path = fake("zsh")
    assert runner(tmp_path, host={"SHELL": path}).find() == Shell("zsh", path)


@pytest.mark.parametrize("own", ["", "/usr/sbin/nologin", "/no/such/bash", "bash", "relative/zsh"])
def test_a_shell_of_the_user_that_is_none_is_passed_over(tmp_path, own):
    found = runner(tmp_path, host={"SHELL": own}).find()
    assert found.name in ("bash", "zsh", "sh", "dash", "ksh", "fish") and os.path.isabs(found.path)


def test_the_operators_choice_stands_for_auto(tmp_path):
    assert runner(tmp_path, default="sh", host={"SHELL": "/bin/bash"}).find("auto").name == "sh"


def test_a_shell_that_is_not_installed_is_unavailable(tmp_path, monkeypatch):
    for wanted in ("fish", "auto"):
        made = ShellRunner(Zygote(), cwd="/", host={"PATH": "/none"}, env={"PATH": "/none"})
        monkeypatch.setattr(os, "getuid", lambda: 2**31)
        with pytest.raises(ToolError) as refused:
            made.find(wanted)
        assert refused.value.code == "unavailable"


async def test_the_layers_of_an_environment(tmp_path):
    made = runner(
        tmp_path, env={"PATH": PATH, "A": "host", "B": "host"}, base_env={"B": "base", "C": "base", "D": "base"}
    )
    env = await made.environment({"C": "session", "D": "session"}, {"D": "call"})
    assert env == {"PATH": PATH, "A": "host", "B": "base", "C": "session", "D": "call"}


async def test_a_login_environment_is_asked_for_once_and_filtered(tmp_path, fake, zygote):
    asked = tmp_path / "asked"
    text = f'#!/bin/sh\necho x >> {asked}\necho Welcome\nexport NVM_DIR=/nvm SECRET=s TOOLBOX_X=1 PATH=/login:$PATH\nexec /bin/sh "$2" "$3"\n'
    made = runner(tmp_path, host={"SHELL": fake("bash", text), "TOOLBOX_TOKEN": "s"}, base_env="login", zygote=zygote)
    env = await made.environment({})
    assert env["NVM_DIR"] == "/nvm" and env["PATH"] == f"/login:{PATH}"
    assert not {"SECRET", "TOOLBOX_X", "TOOLBOX_TOKEN", "TOOLBOX_CALL"} & env.keys()
    await made.environment({})
    assert asked.read_text() == "x\n"


async def test_a_login_shell_that_fails_leaves_the_rest(tmp_path, fake, zygote):
    made = runner(tmp_path, host={"SHELL": fake("bash", "#!/bin/sh\nexit 1\n")}, base_env="login", zygote=zygote)
    assert await made.environment({"A": "1"}) == {"PATH": PATH, "A": "1"}


@pytest.fixture
def clock():
    class Clock:
        now = 0.0

        def __call__(self):
            return self.now

    return Clock()


def test_a_session_belongs_to_its_owner():
    sessions = ShellSessions()
    session = sessions.of("me").open(None)
    sessions.of("me").keep(session)
    assert sessions.of("me").open(session.id) is session
    for owner, id_ in (("other", session.id), ("me", "sess_x")):
        with pytest.raises(ToolError) as refused:
            sessions.of(owner).open(id_)
        assert refused.value.code == "not_found"


def test_a_session_that_was_not_kept_is_unknown():
    sessions = ShellSessions().of("me")
    session = sessions.open("")
    with pytest.raises(ToolError):
        sessions.open(session.id)


def test_a_session_ends_after_thirty_idle_minutes(clock):
    sessions = ShellSessions(clock).of("me")
    sessions.keep(ShellSession("sess_a"))
    clock.now = IDLE
    sessions.keep(sessions.open("sess_a"))
    clock.now = 2 * IDLE
    sessions.open("sess_a")
    clock.now = 2 * IDLE + 1
    with pytest.raises(ToolError):
        sessions.open("sess_a")


def test_the_session_used_least_recently_goes_first(clock):
    sessions = ShellSessions(clock).of("me")
    for number in range(SESSIONS):
        sessions.keep(ShellSession(f"sess_{number}"))
    sessions.keep(sessions.open("sess_0"))
    sessions.keep(ShellSession("sess_new"))
    with pytest.raises(ToolError):
        sessions.open("sess_1")
    assert sessions.open("sess_0") and sessions.open("sess_2") and sessions.open("sess_new")


def test_the_sessions_of_an_owner_end_with_it():
    sessions = ShellSessions()
    for owner in ("me", "other"):
        sessions.of(owner).keep(ShellSession(f"sess_{owner}"))
    sessions.end_owner("me")
    with pytest.raises(ToolError):
        sessions.of("me").open("sess_me")
    assert sessions.of("other").open("sess_other")
