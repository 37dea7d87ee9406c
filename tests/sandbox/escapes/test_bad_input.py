"""How programs that misbehave end on each back end, and that nothing of them is left. They run in a world."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.sandbox.escapes import bad_input, world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the back ends on this host are Linux")


BACK_ENDS = ("native", "bubblewrap", "landlock")
WALL = (124, "SIGKILL", "wall", True, "")
SYSTEM_CALL = (159, "SIGSYS", "syscall", False, "")


def killed(cause):
    return 137, "SIGKILL", cause, False, ""


def raised(words):
    return 1, None, None, False, words


# (exit code, signal, cause, timed out, words on stderr), and where back ends differ, of those that do.
ENDS = {
    "ends well": (0, None, None, False, ""),
    "ends with a status": (7, None, None, False, ""),
    "no utf-8 in the source": raised("SyntaxError"),
    "binary output": (0, None, None, False, ""),
    "output above its limit": killed("output"),
    "a gigabyte of output": (0, None, None, False, ""),
    "closes its output": (3, None, None, False, ""),
    "writes to closed output": raised("Bad file descriptor"),
    "reads what is not there": raised("EOFError"),
    "forks for ever": raised("BlockingIOError"),
    "forks whatever comes": WALL,
    "starts threads for ever": raised("can't start new thread"),
    "takes memory": raised("MemoryError"),
    "takes memory in parts": raised("MemoryError"),
    "takes memory with others": killed("memory"),
    "takes shared memory": killed("memory"),
    "aborts with much memory": (134, "SIGABRT", "memory", False, ""),
    "opens files for ever": raised("Too many open files"),
    "makes files for ever": killed("disk"),
    "fills the disk": raised("No space left on device"),
    "makes a large file": raised("File too large"),
    "makes a large file and listens to the signal": (153, "SIGXFSZ", "disk", False, ""),
    "runs for ever": WALL,
    "sleeps for ever": WALL,
    "takes processor time": (152, "SIGXCPU", "cpu", False, ""),
    "takes processor time whatever comes": killed("cpu"),
    "ignores signals": WALL,
    "kills itself": killed("external"),
    "ends itself by SIGTERM": (143, "SIGTERM", None, False, ""),
    "crashes": (139, "SIGSEGV", None, False, ""),
    "calls another kernel": SYSTEM_CALL,
    "leaves a child with its pipes": (0, None, None, False, ""),
    "leaves a daemon with its pipes": (0, None, None, False, ""),
    "stops itself": WALL,
    "removes its folder": (0, None, None, False, ""),
    "takes rights from its folder": (0, None, None, False, ""),
    "leaves a deep folder": (0, None, None, False, ""),
    "leaves odd names": (0, None, None, False, ""),
}
DIFFERENT = {
    ("native", "makes files for ever"): raised("No space left on device"),
    ("landlock", "fills the disk"): killed("disk"),
    # Python 3.11 that reads a program from stdin itself takes it as the end.
    ("bubblewrap", "a null byte in the source"): (0, None, None, False, ""),
    ("native", "a null byte in the source"): raised("null bytes"),
    ("landlock", "a null byte in the source"): raised("null bytes"),
}
# The address space ends and the watchdog looks at about the same size: which is first is a matter of time.
AS_WELL = {"takes memory in parts": killed("memory")}
BYTES = {"a gigabyte of output": 1 << 30, "binary output": 25600, "ends well": 3, "leaves a child with its pipes": 4}
SAYS = {"runs for ever": "begun\n", "sleeps for ever": "begun\n", "leaves a child with its pipes": "bye\n"}


@pytest.fixture(scope="module")
def reports():
    with ThreadPoolExecutor(2) as pool:
        running = {name: pool.submit(world.run, "user", f"bad input: {name}") for name in BACK_ENDS}
    try:
        found = {name: future.result() for name, future in running.items()}
    except world.NoWorld as reason:
        if "not installed" in str(reason):
            pytest.skip(str(reason))
        raise
    assert [report["problems"] for report in found.values()] == [[], [], []]
    return {name: report["rounds"][f"bad input: {name}"] for name, report in found.items()}


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_an_end_is_told_as_it_was(reports, back_end):
    failed = {}
    for program in bad_input.PROGRAMS:
        ended = reports[back_end]["ended"][program]
        ends = [DIFFERENT.get((back_end, program)) or ENDS[program], AS_WELL.get(program)]
        found = (ended["exit_code"], ended["signal"], ended["killed_by"], ended["timed_out"])
        words = [end[-1] for end in ends if end and end[:-1] == found]
        told = bool(words) and words[0] in ended["stderr"]
        told = told and ended["bytes"] == BYTES.get(program, ended["bytes"])
        if not told or ended["stdout"] != SAYS.get(program, ended["stdout"]):
            failed[program] = ended
    assert failed == {}


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_nothing_is_left_of_any(reports, back_end):
    assert (reports[back_end]["left"], reports[back_end]["scratch"]) == ([], [])


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_a_gigabyte_of_output_takes_no_room(reports, back_end):
    assert reports[back_end]["peak"] < 100 << 20
