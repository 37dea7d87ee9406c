from toolbox_mcp.server.resources import sessions
from toolbox_mcp.server.resources.sessions import SessionStore


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_owner_without_a_session_is_dropped_when_it_stays_away():
    clock, dropped = Clock(), []
    owners = SessionStore(clock, dropped.append)
    first = owners.of("principal:a")
    clock.now = sessions.IDLE
    assert owners.of("principal:a") is first
    clock.now = 2 * sessions.IDLE + 1
    owners.of("principal:b")
    assert dropped == ["principal:a"]
    assert owners.of("principal:a") is not first


def test_a_session_lasts_until_its_end_is_told():
    clock, dropped = Clock(), []
    owners = SessionStore(clock, dropped.append)
    assert owners.begin("session:1")
    assert not owners.begin("session:1")
    state = owners.of("session:1")
    clock.now = 100 * sessions.IDLE
    owners.of("principal:b")
    assert owners.of("session:1") is state
    owners.drop("session:1")
    owners.drop("session:1")
    assert dropped == ["session:1"]


def test_the_number_of_owners_is_bounded(monkeypatch):
    monkeypatch.setattr(sessions, "OWNERS", 3)
    dropped = []
    owners = SessionStore(Clock(), dropped.append)
    for name in "abcde":
        owners.of(name)
    assert dropped == ["a", "b"]


async def test_the_state_of_a_session_ends_with_it(call):
    call.client_options = {"mode": "legacy"}
    await call("todo_write", todos=[{"content": "x", "status": "pending"}])
    owners = call.owners
    assert owners.of("session:stdio").session.todos.items
    await call.aclose()
    assert not owners.of("session:stdio").session.todos.items
