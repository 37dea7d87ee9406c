import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolbox_mcp.safety.writes.locks import Locks

A, B = "/a", "/b"


@pytest.mark.parametrize("name", ["/a", "/A"])
def test_one_holder_at_a_time(name):
    locks = Locks()
    order: list[str] = []
    started = threading.Event()

    def second() -> None:
        started.set()
        with locks.hold(name):
            order.append("second")

    with ThreadPoolExecutor(1) as pool:
        with locks.hold(A):
            waiting = pool.submit(second)
            assert started.wait(5)
            order.append("first")
        waiting.result(5)
    assert order == ["first", "second"]


def test_another_path_does_not_wait():
    locks = Locks()

    def other() -> bool:
        with locks.hold(B):
            return True

    with ThreadPoolExecutor(1) as pool, locks.hold(A):
        assert pool.submit(other).result(5)


@pytest.mark.parametrize(
    ("held", "wanted", "free"),
    [
        ("/a", "/a/b/c", False),
        ("/a/b/c", "/a", False),
        ("/a/b/c", "/A/B", False),
        ("/a/b/c", "/a/b/d", True),
        ("/a/b", "/a/bc", True),
        ("/a/b", "/a/bc/d", True),
        ("/", "/a", False),
        ("/a", "/", False),
    ],
)
def test_who_holds_a_folder_holds_all_below_it(held, wanted, free):
    locks = Locks()
    order = []
    started = threading.Event()

    def other() -> None:
        started.set()
        with locks.hold(B, wanted):
            order.append("other")

    with ThreadPoolExecutor(1) as pool:
        with locks.hold(held):
            waiting = pool.submit(other)
            assert started.wait(5)
            if free:
                waiting.result(5)
            order.append("one")
        waiting.result(5)
    assert order == (["other", "one"] if free else ["one", "other"])


def test_the_same_thread_takes_it_again():
    locks = Locks()
    with locks.hold(A), locks.hold(A, B), locks.hold(f"{A}/c"), locks.hold(A):
        pass
    assert not locks._held


def test_holders_of_two_paths_never_wait_for_each_other():
    locks = Locks()

    def hold(one: str, other: str) -> None:
        for _ in range(500):
            with locks.hold(one, other):
                pass

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(hold, A, B), pool.submit(hold, B, A)]:
            future.result(30)


def test_keeps_no_lock_that_nobody_holds():
    locks = Locks()
    for number in range(100):
        with locks.hold(f"/{number}"):
            pass
    assert not locks._held
    assert not locks._below
