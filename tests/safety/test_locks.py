import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolbox_mcp.safety.locks import Locks

A, B = Path("/a"), Path("/b")


@pytest.mark.parametrize("name", ["/a", "/A"])
def test_one_holder_at_a_time(name):
    locks = Locks()
    order: list[str] = []
    started = threading.Event()

    def second() -> None:
        started.set()
        with locks.hold(Path(name)):
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


def test_the_same_thread_takes_it_again():
    locks = Locks()
    with locks.hold(A), locks.hold(A, B):
        pass


def test_holders_of_two_paths_never_wait_for_each_other():
    locks = Locks()

    def hold(one: Path, other: Path) -> None:
        for _ in range(500):
            with locks.hold(one, other):
                pass

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(hold, A, B), pool.submit(hold, B, A)]:
            future.result(30)


def test_keeps_no_lock_that_nobody_holds():
    locks = Locks()
    for number in range(100):
        with locks.hold(Path(f"/{number}")):
            pass
    assert len(locks._locks) == 0
